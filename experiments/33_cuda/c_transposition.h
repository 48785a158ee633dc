// Step (c): memory that is read side by side. out (columns, rows) is the transpose of in (rows, columns).
#pragma once

#include <cstddef>

#include "infer/cuda/device.h"

namespace folio::experiments {

/// The arguments of a transposition on device memory.
struct Transposition {
  const float* in;  // (rows, columns)
  size_t rows;
  size_t columns;
  float* out;  // (columns, rows)
};

// All three give a block of 256 threads a tile of 32 × 32 elements.

/// Reads rows and writes columns, straight from memory to memory.
void transpose_naive(infer::gpu::Stream& stream, const Transposition& t);
/// Reads rows into shared memory, [32][32], and writes rows that are its columns.
void transpose_tiled(infer::gpu::Stream& stream, const Transposition& t);
/// As transpose_tiled, with a row of [32][33], so that a column's elements are in different banks.
void transpose_padded(infer::gpu::Stream& stream, const Transposition& t);

}  // namespace folio::experiments
