#include "experiments/05_rope/position_scores.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "modules/rope.h"

namespace folio::experiments {
namespace {

torch::Tensor random_vector(const core::ModelConfig& config, uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn(config.head_dim, torch::kDouble);
}

torch::Tensor scores_of(const torch::Tensor& placed_TK) {
  return placed_TK.matmul(placed_TK.t()) / std::sqrt(static_cast<double>(placed_TK.size(1)));
}

}  // namespace

torch::Tensor scores_of_rotated(const core::ModelConfig& config, uint64_t seed) {
  nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
  const torch::Tensor x_K = random_vector(config, seed);
  return scores_of(rope->apply(x_K.expand({1, config.context_length, 1, config.head_dim})).flatten(0, 2));
}

torch::Tensor scores_with_sines(const core::ModelConfig& config, uint64_t seed) {
  nn::RopeCache rope(2, config.head_dim, config.rope_theta);  // only its frequencies are used
  const torch::Tensor positions_T = torch::arange(config.context_length, torch::kDouble);
  const torch::Tensor angle_TP = torch::outer(positions_T, rope->rotations()[1].angle());
  return scores_of(random_vector(config, seed) + torch::stack({angle_TP.sin(), angle_TP.cos()}, -1).flatten(-2));
}

double spread_at_equal_distance(const torch::Tensor& scores_TT) {
  double spread = 0.0;
  for (int64_t distance = 1 - scores_TT.size(0); distance < scores_TT.size(0); ++distance) {
    const torch::Tensor line = scores_TT.diagonal(distance);
    spread = std::max(spread, (line.max() - line.min()).item<double>());
  }
  return spread / scores_TT.abs().max().item<double>();
}

}  // namespace folio::experiments
