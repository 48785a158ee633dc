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
#include "experiments/33_cuda/exercises/cuda/online_softmax_blocks_kernel.h"
#include "experiments/exercises/mistakes/mistakes.h"

namespace folio::exercises {

__device__ void take_block(State& s, float score, const float* values, unsigned n) {
  const float block_max = warp_max(score);
  const bool own_maximum = wrong("own_maximum");
  const float max = wrong("no_maximum") ? 0.0F : own_maximum || block_max > s.max ? block_max : s.max;
  float factor = own_maximum || wrong("no_rescaling") ? 1.0F : exp_of(s.max - max);
  if (wrong("wrong_way_round")) factor = 1.0F / factor;
  const float weight = exp_of(score - max);
  s.max = max;
  if (!wrong("sum_not_rescaled")) s.sum *= factor;
  if (!wrong("weighted_not_rescaled")) s.weighted *= factor;
  if (wrong("lanes_leave") && threadIdx.x >= n) return;
  const bool own_weight = wrong("own_weight");
  if (wrong("all_thirty_two")) n = kBlockPositions;
  for (unsigned j = 0; j < n; ++j) {
    const float w = own_weight ? weight : __shfl_sync(kAllLanes, weight, static_cast<int>(j));
    s.sum += w;
    s.weighted = fmaf(w, values[j * kHeadDim + threadIdx.x], s.weighted);
  }
}

}  // namespace folio::exercises
