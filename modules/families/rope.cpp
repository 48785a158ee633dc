// Shapes: B sequences, T positions, H heads, K dimensions per head, P rotated pairs.
#include "modules/families/rope.h"

#include <memory>
#include <utility>

#include "core/rope_scaling.h"
#include "modules/families/parts.h"

namespace folio::nn {

torch::Tensor FamilyRopeImpl::apply(const torch::Tensor& x_BTHK, int64_t first_position) const {
  const int64_t rotated = 2 * rotations().size(1), rest = x_BTHK.size(-1) - rotated;
  if (rest > 0) {
    return torch::cat({apply(x_BTHK.narrow(-1, 0, rotated), first_position), x_BTHK.narrow(-1, rotated, rest)}, -1);
  }
  if (pairs_ == core::RopePairs::Adjacent) return RopeCacheImpl::apply(x_BTHK, first_position);
  const auto adjacent_BTHK = x_BTHK.unflatten(-1, {2, -1}).transpose(-1, -2).flatten(-2);
  const auto y_BTHK = RopeCacheImpl::apply(adjacent_BTHK, first_position);
  return y_BTHK.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2);
}

RopeCache FamilyParts::rope(const core::ModelConfig& config) const {
  // Compute the rotations as RopeCache does, but with scaled frequencies and magnitudes.
  const auto i_P = torch::arange(0, config.rotated(), 2, torch::kDouble);
  const auto factor_P = torch::tensor(core::rope_factors(config), torch::kDouble);
  const double theta = config.rope_theta;
  const auto frequency_P = torch::pow(theta, -i_P / static_cast<double>(config.rotated())) / factor_P;
  const auto angle_TP = torch::outer(torch::arange(config.context_length, torch::kDouble), frequency_P);
  const auto magnitude_TP = torch::full_like(angle_TP, static_cast<double>(core::rope_magnitude(config)));
  const auto rope =
      std::make_shared<FamilyRopeImpl>(torch::polar(magnitude_TP, angle_TP), core::info(config.family).pairs);
  if (config.local_rope_theta > 0.0F) {
    core::ModelConfig local = config;
    local.rope_theta = std::exchange(local.local_rope_theta, 0.0F);
    local.rope_scaling = {};
    rope->local = FamilyParts::rope(local);
  }
  return RopeCache(std::shared_ptr<RopeCacheImpl>(rope));
}

}  // namespace folio::nn
