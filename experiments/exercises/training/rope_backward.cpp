// The backward pass of RoPE, by hand.
//
//     forward   y[2i] = x[2i] cos - x[2i+1] sin          y[2i+1] = x[2i] sin + x[2i+1] cos
//     find      ∂L/∂x[2i] and ∂L/∂x[2i+1], from dy[2i] and dy[2i+1]
//
// cos and sin are [T, K / 2], one value per position and pair. Useful tensor operations: dy.unflatten(-1, {-1, 2}),
// select(-1, 0), torch::stack, flatten(-2).
//
// Read first: experiments/11_gradients/README.md.
// Check it with: make exercise N=rope_backward
#include "experiments/exercises/training/training.h"

namespace folio::exercises {

Tensor rope_backward(const Tensor& cos, const Tensor& sin, const Tensor& dy) {
  throw Unfilled(
      "The way back through RoPE is still to be written, in experiments/exercises/training/rope_backward.cpp.\n"
      "x[2i] is in two of the y. Multiply each dy by its factor there, and add.");
}

}  // namespace folio::exercises
