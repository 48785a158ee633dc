#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor RopeImpl::apply(const Tensor& x_BTHK, int64_t first_position) const {
  const auto positions_T = torch::arange(first_position, first_position + x_BTHK.size(1), torch::kDouble);
  const auto exponents_P = -torch::arange(0, head_dim, 2, torch::kDouble) / static_cast<double>(head_dim);
  const auto angles_T1P = torch::outer(positions_T, torch::pow(theta, exponents_P)).unsqueeze(1);
  const Tensor c = angles_T1P.cos().to(x_BTHK.scalar_type()), s = angles_T1P.sin().to(x_BTHK.scalar_type());
  const Tensor pairs_BTHP2 = x_BTHK.unflatten(-1, {-1, 2});
  const Tensor a = pairs_BTHP2.select(-1, 0), b = pairs_BTHP2.select(-1, 1);
  return torch::stack({a * c - b * s, a * s + b * c}, -1).flatten(-2);
}

}  // namespace folio::exercises
