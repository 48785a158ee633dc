// Block-wide sums, maxima and prefix sums, in an order that depends only on the block's size.
#pragma once

#include "infer/cuda/numbers.h"

namespace folio::infer::gpu {

inline constexpr unsigned kBlockThreads = 256;
inline constexpr unsigned kBlockWarps = kBlockThreads / kWarp;
inline constexpr unsigned kRowThreads = 1024;  ///< threads per block in kernels with one block per row
inline constexpr unsigned kRowWarps = kRowThreads / kWarp;
static_assert(kRowWarps == kWarp);

/// Returns, in every lane, join() of the warp's values. The steps join lanes at distance 16, 8, 4, 2, 1.
template <typename T, typename Join>
__device__ T warp_join(T value, Join join) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = join(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}
template <typename T>
__device__ T warp_sum(T value) {
  return warp_join(value, [](T a, T b) { return a + b; });
}
__device__ inline uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

/// Returns, in every thread, join() of the values of a block of kRowThreads threads: those of each warp, then of the
/// warps.
template <typename T, typename Join>
__device__ T block_join(T value, Join join) {
  FOLIO_SHARED(T, of_warp, kRowWarps);
  value = warp_join(value, join);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  const T all = warp_join(of_warp[threadIdx.x % kWarp], join);
  __syncthreads();  // before the next call overwrites `of_warp`
  return all;
}
__device__ inline float block_sum(float value) {
  return block_join(value, [](float a, float b) { return a + b; });
}

/// Result of block_scan() in a block of kWarps warps: the sum over the threads with lower indices, and over all.
template <typename T>
struct Scan {
  T before;
  T total;
};
template <unsigned kWarps, typename T>
__device__ Scan<T> block_scan(T value) {
  FOLIO_SHARED(T, sums, kWarps);
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  T up_to = value;
  for (unsigned distance = 1; distance < kWarp; distance *= 2) {
    const T left = __shfl_up_sync(kAllLanes, up_to, distance);
    if (lane >= distance) up_to += left;
  }
  if (lane == kWarp - 1) sums[warp] = up_to;
  __syncthreads();
  Scan<T> scan{up_to - value, 0};
  for (unsigned w = 0; w < kWarps; ++w) {
    if (w < warp) scan.before += sums[w];
    scan.total += sums[w];
  }
  __syncthreads();  // before the next call overwrites `sums`
  return scan;
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
