// Generates outputs with a sampler setting and computes their statistics.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/18_sampling/cuts.h"
#include "infer/engine/engine.h"

namespace folio::experiments {

/// A prompt and its continuation, from the corpus or generated.
struct Text {
  std::vector<int32_t> prompt;
  std::vector<int32_t> tokens;
  uint64_t seed = 0;
};

/// Generates `n_tokens` tokens after each prompt, all in one batch. Prompt i uses the seed options.seed + i.
[[nodiscard]] std::vector<Text> continued(infer::Engine& engine, const data::Tokenizer& tokenizer,
                                          std::span<const Text> prompts, int64_t n_tokens,
                                          infer::SamplerOptions options);

/// Statistics of an output; means over its tokens unless noted otherwise.
struct Counted {
  double entropy = 0.0;            ///< entropy of the distribution drawn from, in nats
  double surprise = 0.0;           ///< -ln p of the tokens under the model without truncation at temperature 1
  double surprise_variance = 0.0;  ///< variance of a token's -ln p under the model, Σ p (-ln p - entropy)²
  double kept = 0.0;               ///< number of candidates kept by truncation
  double kept_mass = 0.0;          ///< probability of the kept candidates under the model
  double least_mass = 1.0;         ///< minimum of kept_mass over the tokens
  double distinct = 0.0;           ///< fraction of the output's 4-grams that are distinct
  double repeated = 0.0;           ///< fraction of 8-grams that occurred earlier in the output
  double other = 0.0;              ///< number of tokens for which the textbook sampler in cuts.h draws another
};

/// Returns the statistics of each text for a sampler with `options` that never draws `suppressed` tokens.
[[nodiscard]] std::vector<Counted> counted(infer::Engine& engine, std::span<const Text> texts,
                                           std::span<const int32_t> suppressed, const infer::SamplerOptions& options);

/// Returns the number of distinct n-grams divided by the number of all n-grams; 1 if there are none.
[[nodiscard]] double distinct_share(std::span<const int32_t> tokens, size_t n);

}  // namespace folio::experiments
