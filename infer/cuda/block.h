// Block-wide sums and maxima, in an order that depends only on the block's size.
#pragma once

#include "infer/cuda/numbers.h"

namespace folio::infer::gpu {

inline constexpr unsigned kBlockThreads = 256;
inline constexpr unsigned kBlockWarps = kBlockThreads / kWarp;
inline constexpr unsigned kRowThreads = 1024;  ///< threads per block in kernels with one block per row
inline constexpr unsigned kRowWarps = kRowThreads / kWarp;
static_assert(kRowWarps == kWarp);

/// Returns, in every lane, the sum of `value` over the warp. The steps add lanes at distance 16, 8, 4, 2, 1.
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

/// Returns, in every thread, the sum of `value` over a block of kRowThreads threads. Sums within each warp first, then
/// adds the sums of the warps.
__device__ inline float block_sum(float value) {
  FOLIO_SHARED(float, sums, kRowWarps);
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  const float total = warp_sum(sums[threadIdx.x % kWarp]);
  __syncthreads();  // before the next call overwrites `sums`
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

/// A row's elements i = threadIdx.x + j * kRowThreads, j < kCount, in a thread's registers. All loads are issued before
/// the first is used, so the row costs one memory latency.
template <int kCount>
struct HeldRow {
  float x[kCount];
};

/// Loads value(i) for i < n into `held`, and 0 past the end.
template <int kCount, typename Value>
__device__ void hold(HeldRow<kCount>& held, size_t n, Value value) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const size_t i = threadIdx.x + static_cast<size_t>(j) * kRowThreads;
    held.x[j] = i < n ? value(i) : 0.0F;
  }
}

/// Calls f(i, x) for this thread's elements i < n of a row. x is from `held`, or value(i) for elements beyond it.
template <int kCount, typename Value, typename F>
__device__ void visit(const HeldRow<kCount>& held, size_t n, Value value, F f) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const size_t i = threadIdx.x + static_cast<size_t>(j) * kRowThreads;
    if (i < n) f(i, held.x[j]);
  }
  for (size_t i = threadIdx.x + size_t{kCount} * kRowThreads; i < n; i += kRowThreads) f(i, value(i));
}

/// Returns true in the last of n blocks that call it, which may then read what the other blocks wrote before the call.
/// The caller must reset *n_done to 0.
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
