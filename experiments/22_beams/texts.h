// Texts by beams and by sampling, and what is counted of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "infer/engine/engine.h"

namespace folio::experiments {

using Tokens = std::vector<int32_t>;

/// What comes after each prompt: the best of `width` beams, or with 0 drawn at temperature 1 with `seed`.
[[nodiscard]] std::vector<infer::GenerateResult> continued(infer::Engine& engine, const data::Tokenizer& tokenizer,
                                                           std::span<const Tokens> prompts, int64_t n_tokens,
                                                           int64_t width, uint64_t seed);

/// ln p of each of the `text`'s tokens behind the prompt, by the model.
[[nodiscard]] std::vector<double> log_probs(infer::Engine& engine, const Tokens& prompt, std::span<const int32_t> text);

/// Of each token, whether the eight that end with it were there before in the text.
[[nodiscard]] std::vector<bool> repeats(std::span<const int32_t> text);

/// The beams of a search after each of its steps, with their blocks.
struct SearchStep {
  struct Beam {
    size_t index;
    std::vector<infer::BlockId> blocks;
  };
  std::vector<Beam> beams;
};
[[nodiscard]] std::vector<SearchStep> search_steps(infer::Engine& engine, const data::Tokenizer& tokenizer,
                                                   const Tokens& prompt, int64_t n_tokens, int64_t width);

}  // namespace folio::experiments
