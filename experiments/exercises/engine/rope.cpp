// RoPE turns the pairs of numbers of a query or key by angles that grow with the position. The score of two
// of them, their dot product, then depends on the distance of their positions alone.
//
// In each head, the numbers 2i and 2i + 1 are pair i, for i = 0 … head_dim / 2 - 1. Pair (a, b) becomes
//
//     (a cos(angle) - b sin(angle), a sin(angle) + b cos(angle))    with angle = position * theta^(-2i / head_dim)
//
// Positions are counted from 0.
//
// Read first: experiments/05_rope/README.md.
// Check it with: make exercise N=engine/rope
#include <cmath>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

// x: (n_heads, head_dim), the heads of one position, turned in place.
void rope(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  throw Unfilled(
      "rope is still to be written, in experiments/exercises/engine/rope.cpp.\n"
      "Go through the heads, and in each through its head_dim / 2 pairs of neighbours.\n"
      "Turn a pair by its angle. Read both numbers before you write one.");
}

}  // namespace folio::exercises
