// Matrix multiplication, which takes nearly all of a model's time. Computes the dot product of each row of x with each
// row of the weight:
//
//     out[row, r] = sum over i of x[row, i] * weight[r, i]
//
// Rows of x are positions, rows of the weight are outputs. In both, index i is contiguous in memory. In matrix
// notation: out = x · weightᵀ. Example: the row (1, 10) of x and a weight with the rows (1, 2) and (3, 4) give the row
// (1 · 1 + 10 · 2, 1 · 3 + 10 · 4) = (21, 43).
//
// Check it with: make exercise N=matmul
#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

// Writes x · weightᵀ to out: (n_rows, n_out). x: (n_rows, n_in). weight: (n_out, n_in).
void matmul(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out) {
  throw Unfilled(
      "matmul is still to be written, in experiments/exercises/engine/matmul.cpp.\n"
      "Three loops: over the rows of x, over the rows of the weight, and over the n_in numbers of both.");
}

}  // namespace folio::exercises
