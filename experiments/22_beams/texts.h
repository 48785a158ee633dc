// Generates outputs by beam search and by sampling, and computes their probabilities and repetitions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "infer/engine/engine.h"

namespace folio::experiments {

using Tokens = std::vector<int32_t>;

/// Continues each prompt by the best of `width` beams. Width 0 means sampling at temperature 1, prompt i with seed + i.
[[nodiscard]] std::vector<infer::GenerateResult> continued(infer::Engine& engine, const data::Tokenizer& tokenizer,
                                                           std::span<const Tokens> prompts, int64_t n_tokens,
                                                           int64_t width, uint64_t seed);

/// Returns the model's ln p of each token of `text`, given the prompt and the preceding tokens.
[[nodiscard]] std::vector<double> log_probs(infer::Engine& engine, const Tokens& prompt, std::span<const int32_t> text);

/// Returns, for each token, true if the 8-gram that ends with it occurred earlier in `text`.
[[nodiscard]] std::vector<bool> repeats(std::span<const int32_t> text);

/// The beams after a step of a search, with their KV blocks.
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
