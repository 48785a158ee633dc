// The parts of the study. Each prints tables, draws pictures and checks results.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "data/tokenizers/bpe.h"
#include "experiments/common/report.h"

namespace folio::experiments {

/// TinyShakespeare, split as for a character model; only its beginning in short form.
struct Text {
  std::string training;
  std::string validation;
};

/// Learns merges from a text: `n_tokens` including <|endoftext|> and 256 bytes, with GPT-2's split into words.
[[nodiscard]] data::BpeVocabulary learned(std::string_view text, int64_t n_tokens);

/// Returns the vocabulary as it was when it had `n_tokens`.
[[nodiscard]] data::BpeVocabulary beginning(const data::BpeVocabulary& vocabulary, int64_t n_tokens);

/// Formats a token for display: "␣the", "↵".
[[nodiscard]] std::string shown(std::string_view bytes);
/// Formats the tokens of a text for display: "␣un|natural".
[[nodiscard]] std::string shown(const data::Tokenizer& tokenizer, std::span<const int32_t> tokens,
                                const std::string& between);

/// Learns merges from bytes, as one would on paper.
void on_paper(Report& report);

/// Studies the benefit of merges, the merges themselves, and how often their tokens are used.
void merges(Report& report, const Text& text);

/// Trains models with different vocabulary sizes for the same time with build/train. Skipped in short form if
/// build/train doesn't exist.
void models(Report& report, const Text& text);

}  // namespace folio::experiments
