// Declares the functions that the reader completes in the CUDA exercises: each launches a kernel in which a part is
// missing. The kernels run on the emulator of tests/infer/cuda/host. Arrays are row-major and in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "experiments/exercises/unfilled.h"
#include "infer/cuda/device.h"

namespace folio::exercises {

using infer::gpu::Stream;

/// x, out: (n_warps, 32). out_i is the sum of the 32 numbers of i's row: each lane of a warp has its warp's sum.
void warp_sums(Stream& stream, const float* x, size_t n_warps, float* out);

/// A linear layer, out = x wᵀ. x: (rows, n_in). w: (n_out, n_in). out: (rows, n_out).
struct Linear {
  const float* x;
  const float* w;
  size_t rows, n_in, n_out;
  float* out;
};
void linear(Stream& stream, const Linear& layer);

constexpr size_t kHeadDim = 32;         ///< numbers of a query, key or value: one for each lane
constexpr size_t kBlockPositions = 32;  ///< positions in a block of the cache: one for each lane

/// Attention of one query over a paged cache. keys, values: (cache blocks, kBlockPositions, kHeadDim).
struct PagedAttention {
  const float* query;  ///< (kHeadDim)
  const float* keys;
  const float* values;
  const uint32_t* table;  ///< which cache block has the positions 32 i to 32 i + 31
  size_t n_positions;
  float* out;  ///< (kHeadDim)
};
void attention(Stream& stream, const PagedAttention& a);

}  // namespace folio::exercises
