// RoPE on LibTorch: rotates pairs of elements by angles proportional to the position.
//
//     pair i of a head is (x[2i], x[2i+1]), i = 0 .. K/2 - 1; at position p its angle is a = p * theta^(-2i / K)
//     y[2i] = x[2i] cos a - x[2i+1] sin a          y[2i+1] = x[2i] sin a + x[2i+1] cos a
//
// x is [B, T, heads, K] with the positions first_position, first_position + 1, …; the result has x's shape and type.
// Compute the angles in double. Useful tensor operations: torch::arange, torch::outer, torch::pow, x.unflatten(-1, {-1,
// 2}), select(-1, 0), torch::stack, flatten(-2).
//
// Read first: experiments/05_rope/README.md.
// Check it with: make exercise N=modules/rope
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor RopeImpl::apply(const Tensor& x_BTHK, int64_t first_position) const {
  throw Unfilled(
      "RoPE is still to be written, in experiments/exercises/modules/rope.cpp.\n"
      "Make the angles [T, K / 2] first, as the outer product of the positions and the frequencies.\n"
      "Cut x into its even and its odd numbers, turn them by the formula, and put them back side by side.");
}

}  // namespace folio::exercises
