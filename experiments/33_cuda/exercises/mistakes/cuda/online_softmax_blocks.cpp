// The mistakes, each with the test that must fail first and words of its message:
//     own_weight: ABlockIsASoftmax: the weight of lane j
//     no_maximum: TheLargestScoreIsSubtracted: is NaN, but
//     own_maximum: ALowerBlockIsAdded: is 6, but
//     no_rescaling: AHigherBlockRescalesBothSums: is 6, but
//     sum_not_rescaled: AHigherBlockRescalesBothSums: is 5.25, but
//     weighted_not_rescaled: AHigherBlockRescalesBothSums: is 8, but
//     wrong_way_round: AHigherBlockRescalesBothSums: is 5, but
//     all_thirty_two: AnIncompleteBlock: is NaN, but
//     lanes_leave: AnIncompleteBlock: all lanes of a mask go to one place
#include "experiments/33_cuda/exercises/cuda/cuda.h"
#include "experiments/exercises/mistakes/mistakes.h"
#include "infer/cuda/numbers.h"

namespace folio::exercises {

using namespace infer::gpu;

namespace {

constexpr float kMinusInfinity = -__builtin_huge_valf();

enum class Wrong {
  None,
  NoRescaling,
  SumNotRescaled,
  WeightedNotRescaled,
  WrongWayRound,
  OwnMaximum,
  NoMaximum,
  OwnWeight,
  AllThirtyTwo,
  LanesLeave,
};

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

template <Wrong kWrong>
__device__ void take_block(State& s, float score, const float* values, unsigned n) {
  using enum Wrong;
  const float block_max = warp_max(score);
  const float max = kWrong == NoMaximum ? 0.0F : kWrong == OwnMaximum || block_max > s.max ? block_max : s.max;
  float factor = kWrong == OwnMaximum || kWrong == NoRescaling ? 1.0F : exp_of(s.max - max);
  if (kWrong == WrongWayRound) factor = 1.0F / factor;
  const float weight = exp_of(score - max);
  s.max = max;
  if (kWrong != SumNotRescaled) s.sum *= factor;
  if (kWrong != WeightedNotRescaled) s.weighted *= factor;
  if (kWrong == LanesLeave && threadIdx.x >= n) return;
  for (unsigned j = 0; j < (kWrong == AllThirtyTwo ? kBlockPositions : n); ++j) {
    const float w = kWrong == OwnWeight ? weight : __shfl_sync(kAllLanes, weight, static_cast<int>(j));
    s.sum += w;
    s.weighted = fmaf(w, values[j * kHeadDim + threadIdx.x], s.weighted);
  }
}

template <Wrong kWrong>
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
    take_block<kWrong>(s, score, a.values + at, n);
  }
  a.out[lane] = s.weighted / s.sum;
}

template <Wrong kWrong>
void run(Stream& stream, const PagedAttention& a) {
  launch(attend<kWrong>, {1}, {kWarp}, 0, stream, a);
}

}  // namespace

void attention(Stream& stream, const PagedAttention& a) {
  using enum Wrong;
  if (wrong("own_weight")) return run<OwnWeight>(stream, a);
  if (wrong("no_maximum")) return run<NoMaximum>(stream, a);
  if (wrong("own_maximum")) return run<OwnMaximum>(stream, a);
  if (wrong("no_rescaling")) return run<NoRescaling>(stream, a);
  if (wrong("sum_not_rescaled")) return run<SumNotRescaled>(stream, a);
  if (wrong("weighted_not_rescaled")) return run<WeightedNotRescaled>(stream, a);
  if (wrong("wrong_way_round")) return run<WrongWayRound>(stream, a);
  if (wrong("all_thirty_two")) return run<AllThirtyTwo>(stream, a);
  if (wrong("lanes_leave")) return run<LanesLeave>(stream, a);
  run<None>(stream, a);
}

}  // namespace folio::exercises
