#include "modules/rms_norm.h"

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {

RMSNormImpl::RMSNormImpl(int64_t dim, double eps) : eps_(eps) {
  core::require(dim >= 1 && eps >= 0, "RMSNorm: dim has to be at least 1 and eps at least 0, but they are {} and {}",
                dim, eps);
  weight = register_parameter("weight", torch::ones(dim));
}

torch::Tensor RMSNormImpl::forward(const torch::Tensor& x) {
  if (x.dim() == 0 || x.size(-1) != weight.size(0)) {
    core::fail("RMSNorm: the input has to be [..., {}], but is {}", weight.size(0), describe(x));
  }
  return x * torch::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps_) * weight;
}

}  // namespace folio::nn
