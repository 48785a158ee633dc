// Repeated sequences of random tokens, and scores of attention heads computed from attention weights on such sequences.
// Source: Olsson et al., "In-context Learning and Induction Heads", 2022: prefix matching, previous-token heads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/common/heat_map.h"
#include "experiments/common/report.h"

namespace folio::experiments {

using Doubles = std::vector<double>;

struct Head {
  int64_t layer = 0;
  int64_t head = 0;  ///< index in its layer
};
[[nodiscard]] std::string shown(const Head& head);  ///< returns "LAYER.HEAD"

/// Returns `length` tokens: `period` distinct tokens of `vocabulary` in random order, repeated. Throws core::Error if
/// the vocabulary has fewer than `period` tokens.
[[nodiscard]] std::vector<int32_t> repeated_tokens(std::span<const int32_t> vocabulary, int64_t period, int64_t length,
                                                   uint64_t seed);

/// Returns the mean attention weight of positions 1 to T - 1 on the preceding position. Row t of `weights` (T, T)
/// belongs to query t.
[[nodiscard]] double previous_token_score(std::span<const float> weights, int64_t T);

/// Returns the mean, over positions t >= period, of the attention weight that position t has on the tokens after
/// earlier copies of its token: positions t + 1 - period, t + 1 - 2 period, … `weights` (T, T) are a head's attention
/// weights on T tokens from repeated_tokens() with this period.
[[nodiscard]] double prefix_matching_score(std::span<const float> weights, int64_t T, int64_t period);

[[nodiscard]] double largest(const Doubles& values);
/// Returns the indices of the values, from the largest value to the smallest.
[[nodiscard]] std::vector<size_t> from_largest(const Doubles& values);

/// Returns the seeds report.seed() to report.seed() + 4, or only report.seed() in short form.
[[nodiscard]] std::vector<uint64_t> five_seeds(const Report& report);

/// Period and length of the token sequence in the attention picture.
inline constexpr int64_t kDrawnPeriod = 12, kDrawn = 3 * kDrawnPeriod;
/// Returns a heat map panel of a head's attention weights (kDrawn, kDrawn).
[[nodiscard]] HeatMap::Panel attention_panel(const std::string& title, Doubles weights);

}  // namespace folio::experiments
