// RMSNorm on LibTorch: divides the vector of each position by its own root mean square.
//
//     y = x / sqrt(mean of x² over the last dimension + eps) * weight
//
// x has any number of dimensions; the last holds the D elements of a position. `eps` and `weight` are members
// (modules.h). Useful tensor operations: x.square(), x.mean(-1, /*keepdim=*/true), torch::rsqrt.
//
// Read first: experiments/04_rms_norm/README.md.
// Check it with: make exercise N=modules/rms_norm
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor RMSNormImpl::forward(const Tensor& x) {
  throw Unfilled(
      "RMSNorm is still to be written, in experiments/exercises/modules/rms_norm.cpp.\n"
      "Square x, take the mean over the last dimension and keep that dimension, add eps, take the root.\n"
      "Divide x by it and multiply by weight: LibTorch repeats both along the dimensions that they lack.");
}

}  // namespace folio::exercises
