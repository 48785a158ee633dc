// The parts of the tokenizer study, on_paper(), merges() and models(), and helpers that they share.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "data/tokenizers/bpe.h"
#include "experiments/common/report.h"

namespace folio::experiments {

/// TinyShakespeare: the first nine tenths for training, the rest for validation. The report's short form uses only the
/// first 100 KB of the text.
struct Text {
  std::string training;
  std::string validation;
};

/// Trains byte-level BPE on `text`, split into words as in GPT-2. `n_tokens` includes <|endoftext|> and all 256 bytes.
[[nodiscard]] data::BpeVocabulary learned(std::string_view text, int64_t n_tokens);

/// Returns the vocabulary's first `n_tokens` tokens, and the merges that produce them.
[[nodiscard]] data::BpeVocabulary beginning(const data::BpeVocabulary& vocabulary, int64_t n_tokens);

/// Formats the tokens of a text for display: "␣un natural".
[[nodiscard]] std::string shown(const data::Tokenizer& tokenizer, std::span<const int32_t> tokens);

/// Shows the first merges of a short sentence one by one, and checks that data::train_bpe() finds the same.
void on_paper(Report& report);

/// Measures the bytes per token by vocabulary size, and how often merged tokens occur in the training text.
void merges(Report& report, const Text& text);

/// Trains models with different vocabulary sizes for the same time with build/train. If build/train doesn't exist, does
/// nothing in short form, and throws core::Error otherwise.
void models(Report& report, const Text& text);

}  // namespace folio::experiments
