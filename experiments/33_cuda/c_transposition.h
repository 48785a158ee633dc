// Step (c): transposition with coalesced accesses. out (columns, rows) is the transpose of in (rows, columns).
#pragma once

#include <cstddef>

#include "infer/cuda/device.h"

namespace folio::experiments {

/// The arguments of a transposition, in device memory.
struct Transposition {
  const float* in;  // (rows, columns)
  size_t rows;
  size_t columns;
  float* out;  // (columns, rows)
};

// Each kernel uses a block of 256 threads for a tile of 32 × 32 elements.

/// Transposes without shared memory: reads rows, and writes columns.
void transpose_naive(infer::gpu::Stream& stream, const Transposition& t);
/// Transposes by tiles in shared memory, [32][32]: reads the rows of a tile, and writes its columns as rows of `out`.
void transpose_tiled(infer::gpu::Stream& stream, const Transposition& t);
/// Like transpose_tiled, but with rows of 33 floats, so that a column's elements are in different banks.
void transpose_padded(infer::gpu::Stream& stream, const Transposition& t);

}  // namespace folio::experiments
