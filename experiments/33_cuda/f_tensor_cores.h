// Step (f): tensor cores. out (n_rows, n_out) = x (n_rows, k) · weightᵀ, of F16 values with sums in F32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/cuda/device.h"
#include "infer/cuda/layout.h"

namespace folio::experiments {

/// The arguments of a product of row-major matrices in device memory. F16 values are stored as their bits.
struct TileProduct {
  const uint16_t* weight;  // (n_out, k)
  const uint16_t* x;       // (n_rows, k)
  size_t n_out;            // multiple of 32
  size_t n_rows;           // multiple of 8
  size_t k;                // multiple of 16
  float* out;              // (n_rows, n_out)
};
/// Like TileProduct, but both F16 matrices have the engine's tiled layout. x.n_rows must be a multiple of 32.
struct PackedProduct {
  infer::gpu::PackedMatrix weight;
  infer::gpu::PackedInputs x;
  float* out;
};

/// Computes one output per thread, with fmaf.
void product_fmaf(infer::gpu::Stream& stream, const TileProduct& p);
/// Computes a tile of 16 × 8 outputs per warp. The lanes load their operands from the row-major matrices.
void product_from_rows(infer::gpu::Stream& stream, const TileProduct& p);
/// Computes a tile per warp from packed matrices. Each lane loads 16 bytes, next to those of the previous lane.
void product_packed(infer::gpu::Stream& stream, const PackedProduct& p);
/// Computes 2 × 4 tiles per warp: a loaded weight is used for four tiles, and an input for two.
void product_eight_tiles(infer::gpu::Stream& stream, const PackedProduct& p);

}  // namespace folio::experiments
