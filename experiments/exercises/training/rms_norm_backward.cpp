// The backward pass of RMSNorm, by hand.
//
//     forward   y_i = weight_i x_i r,  r = (mean of x² + eps)^(-1/2), for each row of x
//     find      ∂L/∂x_j = Σ_i dy_i ∂y_i/∂x_j          ∂L/∂weight_i = Σ over rows of dy_i ∂y_i/∂weight_i
//
// r depends on every x_j of its row: ∂r/∂x_j = -r³ x_j / D. Simplify the sum on paper first; no D × D matrix is needed.
//
// Read first: experiments/11_gradients/README.md.
// Check it with: make exercise N=rms_norm_backward
#include "experiments/exercises/training/training.h"

namespace folio::exercises {

NormGradients rms_norm_backward(const Tensor& x, const Tensor& weight, double eps, const Tensor& dy) {
  throw Unfilled(
      "The way back through RMSNorm is still to be written, in experiments/exercises/training/rms_norm_backward.cpp.\n"
      "x_j is in y_j as a factor, and in r for all y_i of its row. So the gradient has two terms.\n"
      "Return {gradient of x, gradient of weight}.");
}

}  // namespace folio::exercises
