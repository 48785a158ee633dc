// Declares the functions of the CUDA exercises: each launches a kernel in which a part is missing. The kernels run on
// the emulator of tests/infer/cuda/host. Arrays are row-major and in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "experiments/exercises/unfilled.h"
#include "infer/cuda/device.h"

namespace folio::exercises {

using infer::gpu::Stream;

/// Computes the sum of each row of x (n_warps, 32), and writes it to all elements of the same row of out (n_warps, 32).
void warp_sums(Stream& stream, const float* x, size_t n_warps, float* out);

/// A linear layer, out = x wᵀ. x: (rows, n_in). w: (n_out, n_in). out: (rows, n_out).
struct Linear {
  const float* x;
  const float* w;
  size_t rows, n_in, n_out;
  float* out;
};
void linear(Stream& stream, const Linear& layer);

constexpr size_t kHeadDim = 32;         ///< elements of a query, key or value: one for each lane
constexpr size_t kBlockPositions = 32;  ///< positions in a block of the cache: one for each lane

/// Attention of one query over a paged cache. keys, values: (cache blocks, kBlockPositions, kHeadDim).
struct PagedAttention {
  const float* query;  ///< (kHeadDim)
  const float* keys;
  const float* values;
  const uint32_t* table;  ///< table[i] is the cache block with positions 32 i to 32 i + 31
  size_t n_positions;
  float* out;  ///< (kHeadDim)
};
void attention(Stream& stream, const PagedAttention& a);

}  // namespace folio::exercises
