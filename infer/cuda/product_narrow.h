// The part of a product with few rows that one block computes: kRowTiles by kColumnTiles tiles. product.cu, which
// explains the method, uses one matrix for all rows, product_experts.cu one per group of rows, product_heads.cu one per
// head.
#pragma once

#include "infer/cuda/product_body.h"

namespace folio::infer::gpu {

inline constexpr unsigned kNarrowThreads = kSplits * kWarp;
inline constexpr size_t kTileNumbers = kTileRows * kTileColumns;

/// Multiplies kRowTiles row tiles, from first_tile on, of the matrix stored at `data` with the layout `w` by the first
/// min(`column_tiles`, kColumnTiles) tiles of inputs, which start at `inputs` and are `input_bytes` apart. `shared` has
/// kNarrowShared bytes. Calls put(column, output, sum) for every sum, including padding; `column` counts from the first
/// of these input rows, `output` from the first row of the matrix.
template <typename Format, int kRowTiles, int kColumnTiles, typename Put>
__device__ void multiply_narrow(const PackedMatrix& w, const uint8_t* data, size_t first_tile, const uint8_t* inputs,
                                size_t input_bytes, size_t column_tiles, uint8_t* shared, Put put) {
  constexpr int kAhead = kColumnTiles == 1 ? Format::kAhead : 1;  // multiplying several column tiles hides the latency
  const size_t split = threadIdx.x / kWarp;
  const size_t steps_of_block = kBlockK / Format::kStepColumns;
  const size_t per_split = split_blocks(w.k_blocks());
  const size_t begin = (split * per_split < w.k_blocks() ? split * per_split : w.k_blocks()) * steps_of_block;
  const size_t end = ((split + 1) * per_split < w.k_blocks() ? (split + 1) * per_split : w.k_blocks()) * steps_of_block;
  const size_t step_bytes = Format::step_bytes(w);

  const uint8_t* weights[kRowTiles];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {  // past the last row tile, reads that one again; the sums are padding
    const size_t tile = first_tile + m < w.row_tiles() ? first_tile + m : w.row_tiles() - 1;
    weights[m] = data + tile * w.tile_bytes();
  }

  // While a step is multiplied, the next kAhead - 1 are being loaded.
  typename Format::Weights loaded[kAhead][kRowTiles];
  const auto fetch = [&](typename Format::Weights(&to)[kRowTiles], size_t step) {
    if (step >= end) return;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      Format::template load_weights<true>(w, weights[m] + step * step_bytes, to[m]);
    }
  };
#pragma unroll
  for (int u = 0; u < kAhead; ++u) fetch(loaded[u], begin + u);
  Sums sums[kRowTiles][kColumnTiles] = {};
  for (size_t step = begin; step < end; step += kAhead) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (step + u >= end) break;
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        if (static_cast<size_t>(n) >= column_tiles) break;
        typename Format::Inputs input;
        Format::load_inputs(inputs + n * input_bytes + (step + u) * Format::kInputBytes, input);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) Format::multiply(loaded[u][m], input, sums[m][n]);
      }
      fetch(loaded[u], step + u + kAhead);
    }
  }

  auto* parts = reinterpret_cast<float*>(shared);
  constexpr size_t kNumbers = kRowTiles * kColumnTiles * kTileNumbers;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      float* to = parts + split * kNumbers + (m * kColumnTiles + n) * kTileNumbers + lane_id() * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = sums[m][n].c[i];
    }
  }
  __syncthreads();
  const size_t n_splits = ceil_div(w.k_blocks(), per_split);
  for (size_t number = threadIdx.x; number < kNumbers; number += kNarrowThreads) {
    float total = parts[number];
    for (size_t s = 1; s < n_splits; ++s) total += parts[s * kNumbers + number];
    const size_t tile = number / kTileNumbers;
    const size_t lane = number % kTileNumbers / 4;
    const size_t i = number % 4;
    put(tile % kColumnTiles * kTileColumns + lane % 4 * 2 + i % 2,
        (first_tile + tile / kColumnTiles) * kTileRows + lane / 4 + i / 2 * 8, total);
  }
}

/// Bytes of multiply_narrow()'s `shared`.
template <int kRowTiles, int kColumnTiles>
inline constexpr size_t kNarrowShared = kSplits * kRowTiles * kColumnTiles * kTileNumbers * sizeof(float);

/// Calls f with the format of `w`, and the tiles of a block as template arguments: 1 x 1 for up to kTileColumns rows
/// that share a matrix, else 2 x 8, which halves the reads of inputs.
template <typename F>
void with_narrow_tiles(const PackedMatrix& w, size_t n_rows, F f) {
  with_format(w, [&]<typename Format>() {
    if (n_rows <= kTileColumns) {
      f.template operator()<Format, 1, 1>();
    } else {
      f.template operator()<Format, 2, 8>();
    }
  });
}

}  // namespace folio::infer::gpu
