// The backward pass of SwiGLU, by hand.
//
//     forward   z = x w1ᵀ     u = x w3ᵀ     h = silu(z) u     y = h w2ᵀ
//               silu(z) = z σ(z), with σ(z) = 1 / (1 + e^-z)
//     find      the gradients of x, w1, w2 and w3, from dy
//
// For y = x wᵀ the gradient of x is dy w, and the gradient of w is dyᵀ x. In an elementwise product the gradient of
// each factor is dy times the other factor. σ' = σ (1 - σ).
//
// Read first: experiments/11_gradients/README.md.
// Check it with: make exercise N=swiglu_backward
#include "experiments/exercises/training/training.h"

namespace folio::exercises {

SwigluGradients swiglu_backward(const Tensor& x, const Tensor& w1, const Tensor& w2, const Tensor& w3,
                                const Tensor& dy) {
  throw Unfilled(
      "The way back through SwiGLU is still to be written, in experiments/exercises/training/swiglu_backward.cpp.\n"
      "Compute z, u and h again. Walk back: dh and dw2, then du and dz, then dw1, dw3 and, from both ways, dx.\n"
      "Return {dx, dw1, dw2, dw3}.");
}

}  // namespace folio::exercises
