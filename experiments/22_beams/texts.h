// Generates outputs by beam search and by sampling, and computes statistics.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "infer/engine/engine.h"

namespace folio::experiments {

using Tokens = std::vector<int32_t>;

/// Continues each prompt with the best of `width` beams, or by sampling at temperature 1 with `seed` if it is 0.
[[nodiscard]] std::vector<infer::GenerateResult> continued(infer::Engine& engine, const data::Tokenizer& tokenizer,
                                                           std::span<const Tokens> prompts, int64_t n_tokens,
                                                           int64_t width, uint64_t seed);

/// Returns ln p under the model of each token of `text`, which follows the prompt.
[[nodiscard]] std::vector<double> log_probs(infer::Engine& engine, const Tokens& prompt, std::span<const int32_t> text);

/// Returns for each token whether the 8-gram that ends with it occurred earlier in the text.
[[nodiscard]] std::vector<bool> repeats(std::span<const int32_t> text);

/// The beams after a step of a search, with their blocks.
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
