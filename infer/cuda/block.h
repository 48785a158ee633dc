// What the threads of a block do together: sums and maxima, in an order that depends on the block's size alone.
#pragma once

#include "infer/cuda/numbers.h"

namespace folio::infer::gpu {

inline constexpr unsigned kBlockThreads = 256;
inline constexpr unsigned kBlockWarps = kBlockThreads / kWarp;
inline constexpr unsigned kRowThreads =
    1024;  ///< of the kernels that take a row a block: what one row needs is threads
inline constexpr unsigned kRowWarps = kRowThreads / kWarp;
static_assert(kRowWarps == kWarp);

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

/// The sum over the threads of a block of kRowThreads, the same for all: warps first, then a warp of their sums.
__device__ inline float block_sum(float value) {
  FOLIO_SHARED(float, sums, kRowWarps);
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  const float total = warp_sum(sums[threadIdx.x % kWarp]);
  __syncthreads();  // the next call may write again
  return total;
}
__device__ inline uint32_t block_max(uint32_t value) {
  FOLIO_SHARED(uint32_t, largest, kRowWarps);
  value = warp_max(value);
  if (threadIdx.x % kWarp == 0) largest[threadIdx.x / kWarp] = value;
  __syncthreads();
  const uint32_t most = warp_max(largest[threadIdx.x % kWarp]);
  __syncthreads();
  return most;
}

/// The numbers i = thread + j * kRowThreads, j < kCount, of a row, in a thread's registers. They are asked for one
/// after the other before the first is used, so a row comes from memory in one trip.
template <int kCount>
struct Held {
  float x[kCount];
};

/// Holds value(i) for i < n, and 0 behind them.
template <int kCount, typename Value>
__device__ void hold(Held<kCount>& held, size_t n, Value value) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const size_t i = threadIdx.x + static_cast<size_t>(j) * kRowThreads;
    held.x[j] = i < n ? value(i) : 0.0F;
  }
}

/// Calls f(i, x) for the thread's numbers of a row of n: x is held, or value(i) where the row has more.
template <int kCount, typename Value, typename F>
__device__ void visit(const Held<kCount>& held, size_t n, Value value, F f) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const size_t i = threadIdx.x + static_cast<size_t>(j) * kRowThreads;
    if (i < n) f(i, held.x[j]);
  }
  for (size_t i = threadIdx.x + size_t{kCount} * kRowThreads; i < n; i += kRowThreads) f(i, value(i));
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
