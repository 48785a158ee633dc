// The parts of the study: each prints its tables, draws its pictures and makes its claims.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "data/tokenizers/bpe.h"
#include "experiments/common/report.h"

namespace folio::experiments {

/// TinyShakespeare, cut where a model of letters cuts it; in short form only its beginning.
struct Text {
  std::string training;
  std::string validation;
};

/// Merges learned from a text: `n_tokens` with <|endoftext|> and 256 bytes, split into words as by GPT-2.
[[nodiscard]] data::BpeVocabulary learned(std::string_view text, int64_t n_tokens);

/// The vocabulary that was there when it had `n_tokens`.
[[nodiscard]] data::BpeVocabulary beginning(const data::BpeVocabulary& vocabulary, int64_t n_tokens);

/// A token for people: "␣the", "↵".
[[nodiscard]] std::string shown(std::string_view bytes);
/// The tokens of a text for people, side by side: "␣un|natural".
[[nodiscard]] std::string shown(const data::Tokenizer& tokenizer, std::span<const int32_t> tokens,
                                const std::string& between);

/// Bytes to merges, as one does it on paper.
void on_paper(Report& report);

/// What merges buy, which ones they are, and how often their tokens are used.
void merges(Report& report, const Text& text);

/// Models with vocabularies of different sizes, trained for the same time by build/train. Left out in short form if
/// there is no such program.
void models(Report& report, const Text& text);

}  // namespace folio::experiments
