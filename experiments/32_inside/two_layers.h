// Trains attention-only models to continue repeated random tokens, and measures losses and head scores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/32_inside/scores.h"
#include "modules/llama.h"

namespace folio::experiments {

inline constexpr int64_t kVocabulary = 64, kHeads = 4, kLength = 64;
inline constexpr int64_t kShortest = 8, kLongest = 32;  ///< range of a sequence's period, in tokens

/// Losses in nats per token, and scores of all heads: means over 64 sequences not used in training.
struct Measured {
  int64_t step = 0;
  double early = 0.0;  ///< loss of the first period, whose tokens are unpredictable
  double late = 0.0;   ///< loss of the repeated tokens, except the first
  Doubles previous{};  ///< [layer · kHeads + head]: previous-token scores
  Doubles prefix{};    ///< [layer · kHeads + head]: prefix-matching scores
};

struct Learner {
  nn::Llama model{nullptr};
  std::vector<Measured> course{};  ///< measured before the first step, every 20 steps, and at the end
};

/// Trains a model of `n_layers` attention layers with residual connections, without feed-forward networks.
[[nodiscard]] Learner train_on_repetitions(int64_t n_layers, int64_t steps, uint64_t seed);

/// Measures the model with the outputs of the heads `off` set to 0.
[[nodiscard]] Measured measure(nn::Llama& model, std::span<const Head> off = {});

/// Returns a head's attention weights (T, T) for T <= kLength tokens.
[[nodiscard]] Doubles weights_of(nn::Llama& model, const Head& head, std::span<const int32_t> tokens);

/// Returns the largest difference between the logits of the model's own forward() and those that measure() computes.
[[nodiscard]] double largest_difference(nn::Llama& model);

}  // namespace folio::experiments
