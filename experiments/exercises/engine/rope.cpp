// RoPE rotates pairs of elements of a query or key by angles proportional to the position, so that the dot product of a
// query and a key depends only on the distance between their positions.
//
// In each head, elements 2i and 2i + 1 are pair i, for i = 0 … head_dim / 2 - 1. Pair (a, b) becomes
//
//     (a cos(angle) - b sin(angle), a sin(angle) + b cos(angle))    with angle = position * theta^(-2i / head_dim)
//
// The first position is 0.
//
// Read first: experiments/05_rope/README.md.
// Check it with: make exercise N=engine/rope
#include <cmath>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

// Rotates x in place: (n_heads, head_dim), all heads of one position.
void rope(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  throw Unfilled(
      "rope is still to be written, in experiments/exercises/engine/rope.cpp.\n"
      "Go through the heads, and in each through its head_dim / 2 pairs of neighbours.\n"
      "Turn a pair by its angle. Read both numbers before you write one.");
}

}  // namespace folio::exercises
