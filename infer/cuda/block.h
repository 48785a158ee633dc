// What the threads of a block do together: sums and maxima, in an order that depends on the block's size alone.
#pragma once

#include "infer/cuda/numbers.h"

namespace folio::infer::gpu {

inline constexpr unsigned kBlockThreads = 256;  ///< of the kernels that take a row a block
inline constexpr unsigned kBlockWarps = kBlockThreads / kWarp;

/// Joins the values of a warp: each step adds (or takes the larger of) what the lane at distance 16, 8, 4, 2, 1 has, so
/// every lane ends with the same.
template <typename T>
__device__ T warp_sum(T value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}
__device__ inline uint32_t warp_max(uint32_t value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(kAllLanes, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

/// The sum over the threads of a block of kBlockThreads, the same for all: warps first, then their sums in order.
__device__ inline float block_sum(float value) {
  FOLIO_SHARED(float, sums, kBlockWarps);
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  float total = 0.0F;
  for (unsigned w = 0; w < kBlockWarps; ++w) total += sums[w];
  __syncthreads();  // the next call may write again
  return total;
}
__device__ inline uint32_t block_max(uint32_t value) {
  FOLIO_SHARED(uint32_t, largest, kBlockWarps);
  value = warp_max(value);
  if (threadIdx.x % kWarp == 0) largest[threadIdx.x / kWarp] = value;
  __syncthreads();
  uint32_t most = 0;
  for (unsigned w = 0; w < kBlockWarps; ++w) most = largest[w] > most ? largest[w] : most;
  __syncthreads();
  return most;
}

/// Whether this block is the last of n that come here. What the others wrote before can then be read. The counter is
/// the caller's to set to zero again.
__device__ inline bool is_last_block(uint32_t* n_done, uint32_t n) {
  FOLIO_SHARED(uint32_t, last, 1);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) *last = atomicAdd(n_done, 1U) + 1 == n ? 1 : 0;
  __syncthreads();
  const bool is_last = *last == 1;
  if (is_last) __threadfence();
  return is_last;
}

}  // namespace folio::infer::gpu
