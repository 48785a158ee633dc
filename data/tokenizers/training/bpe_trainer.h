// Byte-pair encoding (Sennrich et al. 2016): the most frequent pair of neighbours becomes a token, again and again. The
// merges are those of Hugging Face's BpeTrainer, ties and all: of pairs that occur equally often the one with the lower
// ids comes first.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/tokenizers/bpe.h"
#include "data/tokenizers/training/word_counts.h"

namespace folio::data {

struct BpeTrainerOptions {
  int64_t vocab_size = 0;  ///< special tokens, 256 bytes, and merges
  PreTokenizer pre_tokenizer = PreTokenizer::Gpt2;
  bool nfc = false;
  bool ignore_merges = false;
  std::vector<std::string> special_tokens{"<|endoftext|>"};  ///< the first ids; the first one is BOS and EOS
};

/// So many tokens there are, of vocab_size. False: stop, and what there is will do.
using BpeProgress = std::function<bool(int64_t n_tokens)>;

/// A vocabulary has fewer tokens than asked for if no pair is left. Throws core::Error if vocab_size has no room for
/// the special tokens and the bytes.
[[nodiscard]] BpeVocabulary train_bpe(const WordCounts& counts, const BpeTrainerOptions& options,
                                      const BpeProgress& progress = {});

}  // namespace folio::data
