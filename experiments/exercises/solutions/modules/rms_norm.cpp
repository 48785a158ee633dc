#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor RMSNormImpl::forward(const Tensor& x) {
  const Tensor mean_square = x.square().mean(-1, /*keepdim=*/true);
  return x * torch::rsqrt(mean_square + eps) * weight;
}

}  // namespace folio::exercises
