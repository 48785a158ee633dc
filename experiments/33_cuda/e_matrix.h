// Step (e): the product of two matrices, c = a · b, the main work of processing a prompt.
#pragma once

#include <cstddef>

#include "infer/cuda/device.h"

namespace folio::experiments {

/// The arguments of a product of two matrices, in device memory.
struct MatrixProduct {
  const float* a;  // (rows, inner)
  const float* b;  // (inner, columns)
  size_t rows;
  size_t inner;
  size_t columns;
  float* c;  // (rows, columns)
};

/// Computes one output per thread, which loads a row of a and a column of b.
void matrix_naive(infer::gpu::Stream& stream, const MatrixProduct& p);
/// Computes one output per thread, and 32 × 32 outputs per block, from tiles of a and b in shared memory.
void matrix_tiled(infer::gpu::Stream& stream, const MatrixProduct& p);
/// Computes 4 × 4 outputs per thread, with sums in registers, and 64 × 64 outputs per block. `rows` and `columns` must
/// be multiples of 64, and `inner` of 16.
void matrix_registers(infer::gpu::Stream& stream, const MatrixProduct& p);

}  // namespace folio::experiments
