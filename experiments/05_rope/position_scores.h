// Attention scores of a fixed query and key at all pairs of positions, for two position encodings.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "core/model_config.h"

namespace folio::experiments {

/// Returns scores [T, T] for T = config.context_length, in double. Query and key are the same random vector, rotated by
/// RoPE or, in the second function, with the sines of Vaswani et al. 2017 added. Scores are highest at distance 0.
[[nodiscard]] torch::Tensor scores_of_rotated(const core::ModelConfig& config, uint64_t seed);
[[nodiscard]] torch::Tensor scores_with_sines(const core::ModelConfig& config, uint64_t seed);

/// Returns the largest difference between scores at equal distance, as a fraction of the largest score.
[[nodiscard]] double spread_at_equal_distance(const torch::Tensor& scores_TT);

}  // namespace folio::experiments
