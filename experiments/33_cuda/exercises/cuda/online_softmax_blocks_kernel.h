// The kernel that calls take_block(), which the including file defines: attention of one query by one warp.
#pragma once

#include "experiments/33_cuda/exercises/cuda/cuda.h"
#include "infer/cuda/numbers.h"

namespace folio::exercises {

using namespace infer::gpu;  // NOLINT: kernels use CUDA's names unqualified

constexpr float kMinusInfinity = -__builtin_huge_valf();

struct State {
  float max = kMinusInfinity;
  float sum = 0.0F;
  float weighted = 0.0F;
};

/// Returns the maximum of `value` over all lanes of the warp, in every lane.
__device__ inline float warp_max(float value) {
  float max = value;
  for (int lane = 0; lane < 32; ++lane) {
    const float other = __shfl_sync(kAllLanes, value, lane);
    if (other > max) max = other;
  }
  return max;
}

__device__ void take_block(State& s, float score, const float* values, unsigned n);

__global__ __launch_bounds__(kWarp) void attend(PagedAttention a) {
  const unsigned lane = threadIdx.x;
  State s;
  for (size_t first = 0; first < a.n_positions; first += kBlockPositions) {
    const size_t at = size_t{a.table[first / kBlockPositions]} * kBlockPositions * kHeadDim;
    const size_t left = a.n_positions - first;
    const unsigned n = left < kBlockPositions ? static_cast<unsigned>(left) : static_cast<unsigned>(kBlockPositions);
    float score = lane < n ? 0.0F : kMinusInfinity;
    for (size_t d = 0; d < kHeadDim && lane < n; ++d) {
      score = fmaf(a.query[d], a.keys[at + lane * kHeadDim + d], score);
    }
    take_block(s, score, a.values + at, n);
  }
  a.out[lane] = s.weighted / s.sum;
}

void attention(Stream& stream, const PagedAttention& a) { launch(attend, {1}, {kWarp}, 0, stream, a); }

}  // namespace folio::exercises
