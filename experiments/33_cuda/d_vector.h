// Step (d): the product of a matrix and a vector, out = weights · x, the main work of decoding for one user.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/cuda/device.h"

namespace folio::experiments {

/// The arguments of a matrix-vector product, in device memory.
struct VectorProduct {
  const float* weights;  // (rows, columns)
  const float* x;        // (columns)
  size_t rows;
  size_t columns;
  float* out;  // (rows)
};

/// Like VectorProduct, but with 8-bit weights: weight = scale · quant. `columns` must be a multiple of 32.
struct QuantizedProduct {
  const int8_t* quants;    // (rows, columns)
  const uint16_t* scales;  // (rows, columns / 32), F16
  const float* x;          // (columns)
  size_t rows;
  size_t columns;
  float* out;  // (rows)
};

/// Computes the product with one thread per row.
void product_threads(infer::gpu::Stream& stream, const VectorProduct& p);
/// Computes the product with one warp per row. The lanes read neighboring elements, and add their sums with shuffles.
void product_warps(infer::gpu::Stream& stream, const VectorProduct& p);
/// Computes the product with one warp per row. Each lane loads four quants with one 4-byte load.
void product_quants(infer::gpu::Stream& stream, const QuantizedProduct& p);

}  // namespace folio::experiments
