// Step (f): tensor cores. out (n_rows, n_out) = x (n_rows, k) · weightᵀ, of F16 numbers with sums in F32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/cuda/device.h"
#include "infer/cuda/layout.h"

namespace folio::experiments {

/// A product of matrices whose rows are as a program has them. F16 numbers are given by their bits.
struct TileProduct {
  const uint16_t* weight;  // (n_out, k)
  const uint16_t* x;       // (n_rows, k)
  size_t n_out;            // multiple of 32
  size_t n_rows;           // multiple of 8
  size_t k;                // multiple of 16
  float* out;              // (n_rows, n_out)
};
/// The same product with both matrices in the engine's layout, of kind F16. x.n_rows must be a multiple of 32.
struct PackedProduct {
  infer::gpu::PackedMatrix weight;
  infer::gpu::PackedInputs x;
  float* out;
};

/// A thread an output, with fmaf.
void product_fmaf(infer::gpu::Stream& stream, const TileProduct& p);
/// A warp a tile of 16 × 8 outputs, whose lanes gather their words from rows.
void product_from_rows(infer::gpu::Stream& stream, const TileProduct& p);
/// A warp a tile, whose lanes each load 16 bytes that are stored in the order of lanes.
void product_packed(infer::gpu::Stream& stream, const PackedProduct& p);
/// A warp 2 × 4 tiles: it multiplies each word that it has loaded by four or by two others.
void product_eight_tiles(infer::gpu::Stream& stream, const PackedProduct& p);

}  // namespace folio::experiments
