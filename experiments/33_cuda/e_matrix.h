// Step (e): a matrix by a matrix, c = a · b, which is what reading a prompt consists of.
#pragma once

#include <cstddef>

#include "infer/cuda/device.h"

namespace folio::experiments {

/// The arguments of a product on device memory.
struct MatrixProduct {
  const float* a;  // (rows, inner)
  const float* b;  // (inner, columns)
  size_t rows;
  size_t inner;
  size_t columns;
  float* c;  // (rows, columns)
};

/// One thread an output, which loads a row of a and a column of b.
void matrix_naive(infer::gpu::Stream& stream, const MatrixProduct& p);
/// One thread an output; a block has 32 × 32, and loads tiles of a and b into shared memory.
void matrix_tiled(infer::gpu::Stream& stream, const MatrixProduct& p);
/// 4 × 4 outputs a thread, with sums in registers; a block has 64 × 64. `rows` and `columns` must be multiples of 64,
/// `inner` of 16.
void matrix_registers(infer::gpu::Stream& stream, const MatrixProduct& p);

}  // namespace folio::experiments
