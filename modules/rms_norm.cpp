#include "modules/rms_norm.h"

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {

RMSNormImpl::RMSNormImpl(int64_t dim, double eps) : eps_(eps) {
  core::require(dim >= 1 && eps >= 0, "RMSNorm: dim is {} and eps is {}, expected dim >= 1 and eps >= 0", dim, eps);
  weight = register_parameter("weight", torch::ones(dim));
}

torch::Tensor RMSNormImpl::forward(const torch::Tensor& x) {
  if (x.dim() == 0 || x.size(-1) != weight.size(0)) {
    core::fail("RMSNorm: the input is {}, expected [..., {}]", describe(x), weight.size(0));
  }
  return x * torch::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps_) * weight;
}

}  // namespace folio::nn
