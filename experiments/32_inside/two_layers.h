// Models of attention alone that learn to continue repeated random tokens: their training, and measurements of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/32_inside/scores.h"
#include "modules/llama.h"

namespace folio::experiments {

inline constexpr int64_t kVocabulary = 64, kHeads = 4, kLength = 64;
inline constexpr int64_t kShortest = 8, kLongest = 32;  ///< periods of the repetitions

/// Losses in nats per token and scores of all heads, means over 64 sequences that no training contains.
struct Measured {
  int64_t step = 0;
  double early = 0.0;  ///< loss of the first period, which nothing can predict
  double late = 0.0;   ///< loss of all tokens after the first one that repeats
  Doubles previous{};  ///< [layer · kHeads + head]: previous-token scores
  Doubles prefix{};    ///< likewise: prefix-matching scores
};

struct Learner {
  nn::Llama model{nullptr};
  std::vector<Measured> course{};  ///< before the first step, every 20 steps, and at the end
};

/// Trains a model of `n_layers` layers, each attention with a residual connection, without feed-forward networks.
[[nodiscard]] Learner train_on_repetitions(int64_t n_layers, int64_t steps, uint64_t seed);

/// Measures the model, with 0 as the output of the heads `off`.
[[nodiscard]] Measured measure(nn::Llama& model, std::span<const Head> off = {});

/// Returns a head's weights (T, T) on T tokens, at most kLength.
[[nodiscard]] Doubles weights_of(nn::Llama& model, const Head& head, std::span<const int32_t> tokens);

/// Returns the largest difference between the logits of the model's own forward() and those that measure() computes.
[[nodiscard]] double largest_difference(nn::Llama& model);

}  // namespace folio::experiments
