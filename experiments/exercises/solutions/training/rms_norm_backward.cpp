#include "experiments/exercises/training/training.h"

namespace folio::exercises {

NormGradients rms_norm_backward(const Tensor& x, const Tensor& weight, double eps, const Tensor& dy) {
  const Tensor r = torch::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps);
  const Tensor normed = x * r, g = dy * weight;  // g: gradient of the normalized input
  return {r * (g - normed * (g * normed).mean(-1, /*keepdim=*/true)), (dy * normed).sum(0)};
}

}  // namespace folio::exercises
