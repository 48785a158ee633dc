// What infer/sampling draws from, written as in a textbook: all tokens sorted, cut, and divided by their sum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/sampling/sampler.h"

namespace folio::experiments {

struct Candidate {
  int32_t token;
  double p;  ///< of the model, or of the distribution that is drawn from
};

/// softmax(logits) without the tokens `never`, likeliest first; equal ones in the order of their ids.
[[nodiscard]] std::vector<Candidate> ranked(std::span<const float> logits, std::span<const int32_t> never);

/// How many of the model's likeliest tokens top-k, top-p and min-p leave; with temperature 0, one.
[[nodiscard]] size_t n_kept(std::span<const Candidate> model, const infer::SamplerOptions& options);

/// The distribution that is drawn from: what is kept, at the options' temperature.
[[nodiscard]] std::vector<Candidate> drawn_from(std::span<const Candidate> model, const infer::SamplerOptions& options);

/// The token at which the probabilities add up to more than `uniform`, in [0, 1).
[[nodiscard]] int32_t token_at(std::span<const Candidate> distribution, double uniform);

/// Σ p
[[nodiscard]] double mass(std::span<const Candidate> candidates);

/// -Σ p ln p in nats
[[nodiscard]] double entropy(std::span<const Candidate> distribution);

}  // namespace folio::experiments
