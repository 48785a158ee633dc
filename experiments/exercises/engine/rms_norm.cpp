// RMSNorm scales the vector of each position to a root mean square of 1, then multiplies by a weight per element.
//
//     rms   = sqrt(mean of x_i² over the dim elements of this position + eps)
//     out_i = x_i / rms * weight_i
//
// Read first: experiments/04_rms_norm/README.md.
// Check it with: make exercise N=engine/rms_norm
#include <cmath>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

// Writes the normalized and weighted x to out. x and out: (n_positions, dim). weight: (dim).
void rms_norm(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  throw Unfilled(
      "rms_norm is still to be written, in experiments/exercises/engine/rms_norm.cpp.\n"
      "Take each position's dim numbers: add up their squares, divide by dim, add eps, take the root.\n"
      "Divide the numbers by it, and multiply each by its weight.");
}

}  // namespace folio::exercises
