// Texts of one setting of the sampler, and what is counted on them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/18_sampling/cuts.h"
#include "infer/engine/engine.h"

namespace folio::experiments {

/// A prompt, and what came after it in the book or from a sampler.
struct Text {
  std::vector<int32_t> prompt;
  std::vector<int32_t> tokens;
  uint64_t seed = 0;
};

/// Each prompt continued by `n_tokens`, all in one batch; prompt i with the seed options.seed + i.
[[nodiscard]] std::vector<Text> continued(infer::Engine& engine, const data::Tokenizer& tokenizer,
                                          std::span<const Text> prompts, int64_t n_tokens,
                                          infer::SamplerOptions options);

/// Means over a text's tokens.
struct Counted {
  double entropy = 0.0;            ///< of what was drawn from, nats
  double surprise = 0.0;           ///< -ln p of the tokens by the model, without cuts and at temperature 1
  double surprise_variance = 0.0;  ///< of it, as the model says: Σ p (-ln p - entropy)²; at temperature 1 without cuts
  double kept = 0.0;               ///< tokens that the cuts leave
  double kept_mass = 0.0;          ///< and their probability by the model
  double least_mass = 1.0;         ///< the smallest of these
  double distinct = 0.0;           ///< 4-grams of the text, as a share of all its 4-grams
  double repeated = 0.0;           ///< 8-grams that the text had before, as a share of all
  int64_t other = 0;               ///< tokens that are not the textbook's draw from the same seed and position
};

/// By text. `suppressed` are tokens that are never drawn.
[[nodiscard]] std::vector<Counted> counted(infer::Engine& engine, std::span<const Text> texts,
                                           std::span<const int32_t> suppressed, const infer::SamplerOptions& options);

/// The n-grams of a text, each counted once, as a share of all its n-grams.
[[nodiscard]] double distinct_share(std::span<const int32_t> tokens, size_t n);

/// The logits after each of the tokens, (tokens, vocab_size).
[[nodiscard]] std::vector<float> logits_of(infer::Engine& engine, std::vector<int32_t> tokens);

}  // namespace folio::experiments
