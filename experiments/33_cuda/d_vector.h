// Step (d): a matrix by a vector, out = weights · x, which is what decoding a token for one user consists of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/cuda/device.h"

namespace folio::experiments {

/// The arguments of a product on device memory.
struct VectorProduct {
  const float* weights;  // (rows, columns)
  const float* x;        // (columns)
  size_t rows;
  size_t columns;
  float* out;  // (rows)
};

/// The same with 8-bit weights: weight = scale · quant. `columns` must be a multiple of 32.
struct QuantizedProduct {
  const int8_t* quants;    // (rows, columns)
  const uint16_t* scales;  // (rows, columns / 32), F16
  const float* x;          // (columns)
  size_t rows;
  size_t columns;
  float* out;  // (rows)
};

/// One thread a row.
void product_threads(infer::gpu::Stream& stream, const VectorProduct& p);
/// One warp a row, whose lanes read the row side by side; their sums are joined by shuffles.
void product_warps(infer::gpu::Stream& stream, const VectorProduct& p);
/// One warp a row; a lane loads four quants at once.
void product_quants(infer::gpu::Stream& stream, const QuantizedProduct& p);

}  // namespace folio::experiments
