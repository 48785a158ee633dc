// A textbook implementation of the distribution that infer/sampling draws from: sort all tokens, truncate, normalize.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/sampling/sampler.h"

namespace folio::experiments {

struct Candidate {
  int32_t token;
  double p;  ///< probability under the model, or in the truncated distribution
};

/// Returns softmax over all tokens except `never`, most likely first. Equally likely tokens are in order of their ids.
[[nodiscard]] std::vector<Candidate> ranked(std::span<const float> logits, std::span<const int32_t> never);

/// Returns how many of the most likely tokens top-k, top-p and min-p keep; 1 at temperature 0. `model` must be in the
/// order of ranked(), most likely first.
[[nodiscard]] size_t n_kept(std::span<const Candidate> model, const infer::SamplerOptions& options);

/// Returns the distribution to draw from: the kept tokens of `model`, at the options' temperature, normalized.
[[nodiscard]] std::vector<Candidate> drawn_from(std::span<const Candidate> model, const infer::SamplerOptions& options);

/// Returns the first token at which the cumulative probability exceeds `uniform`, a random number in [0, 1).
[[nodiscard]] int32_t token_at(std::span<const Candidate> distribution, double uniform);

/// Returns Σ p, the total probability.
[[nodiscard]] double mass(std::span<const Candidate> candidates);

/// Returns -Σ p ln p in nats.
[[nodiscard]] double entropy(std::span<const Candidate> distribution);

}  // namespace folio::experiments
