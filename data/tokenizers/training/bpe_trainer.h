// Trains byte-pair encoding (Sennrich et al. 2016), which repeatedly merges the most frequent adjacent pair into a
// token. The merges are those of Hugging Face's BpeTrainer; of pairs with equal counts, the pair with the lower IDs is
// merged first.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/tokenizers/bpe.h"
#include "data/tokenizers/training/word_counts.h"

namespace folio::data {

struct BpeTrainerOptions {
  int64_t vocab_size = 0;  ///< total number of tokens, including special tokens and 256 bytes
  PreTokenizer pre_tokenizer = PreTokenizer::Gpt2;
  bool nfc = false;
  bool ignore_merges = false;
  std::vector<std::string> special_tokens{"<|endoftext|>"};  ///< have the first IDs; ID 0 is BOS and EOS
};

/// Called with the number of tokens so far. Returns false to stop training early.
using BpeProgress = std::function<bool(int64_t n_tokens)>;

/// Trains a vocabulary. Returns fewer than vocab_size tokens if no pair is left to merge. Throws core::Error if
/// vocab_size is too small for the special tokens and the bytes.
[[nodiscard]] BpeVocabulary train_bpe(const WordCounts& counts, const BpeTrainerOptions& options,
                                      const BpeProgress& progress = {});

}  // namespace folio::data
