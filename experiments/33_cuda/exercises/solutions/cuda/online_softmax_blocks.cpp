#include "experiments/33_cuda/exercises/cuda/cuda.h"
#include "infer/cuda/numbers.h"

namespace folio::exercises {

using namespace infer::gpu;

namespace {

constexpr float kMinusInfinity = -__builtin_huge_valf();

struct State {
  float max = kMinusInfinity;
  float sum = 0.0F;
  float weighted = 0.0F;
};

__device__ float warp_max(float value) {
  float max = value;
  for (int lane = 0; lane < 32; ++lane) {
    const float other = __shfl_sync(kAllLanes, value, lane);
    if (other > max) max = other;
  }
  return max;
}

__device__ void take_block(State& s, float score, const float* values, unsigned n) {
  const float block_max = warp_max(score);
  const float max = block_max > s.max ? block_max : s.max;
  const float factor = exp_of(s.max - max);
  const float weight = exp_of(score - max);
  s.max = max;
  s.sum *= factor;
  s.weighted *= factor;
  for (unsigned j = 0; j < n; ++j) {
    const float w = __shfl_sync(kAllLanes, weight, static_cast<int>(j));
    s.sum += w;
    s.weighted = fmaf(w, values[j * kHeadDim + threadIdx.x], s.weighted);
  }
}

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

}  // namespace

void attention(Stream& stream, const PagedAttention& a) { launch(attend, {1}, {kWarp}, 0, stream, a); }

}  // namespace folio::exercises
