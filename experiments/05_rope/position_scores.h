// The scores that one query has with one key, wherever the two stand: what a way of telling positions does to them.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "core/model_config.h"

namespace folio::experiments {

/// Scores [T, T] at config.context_length positions, in double, of a random vector that is query and key at once, so
/// that it fits itself best at distance 0: turned by RoPE, or with the sines of Vaswani et al. 2017 added.
[[nodiscard]] torch::Tensor scores_of_rotated(const core::ModelConfig& config, uint64_t seed);
[[nodiscard]] torch::Tensor scores_with_sines(const core::ModelConfig& config, uint64_t seed);

/// How much scores of one distance differ at most, as a share of the largest score.
[[nodiscard]] double spread_at_equal_distance(const torch::Tensor& scores_TT);

}  // namespace folio::experiments
