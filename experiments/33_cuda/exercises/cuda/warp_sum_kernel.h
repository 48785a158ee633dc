// The kernel that calls warp_sum(), which the including file defines.
#pragma once

#include "experiments/33_cuda/exercises/cuda/cuda.h"
#include "infer/cuda/numbers.h"

namespace folio::exercises {

using namespace infer::gpu;  // NOLINT: kernels use CUDA's names unqualified

constexpr unsigned kThreads = 64;

__device__ float warp_sum(float value);

__global__ __launch_bounds__(kThreads) void sums(const float* x, size_t n, float* out) {
  const size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) out[i] = warp_sum(x[i]);  // n is a multiple of 32, so a warp does not diverge
}

void warp_sums(Stream& stream, const float* x, size_t n_warps, float* out) {
  const size_t n = n_warps * kWarp;
  const auto threads = static_cast<unsigned>(n < kThreads ? n : kThreads);
  launch(sums, {static_cast<unsigned>((n + threads - 1) / threads)}, {threads}, 0, stream, x, n, out);
}

}  // namespace folio::exercises
