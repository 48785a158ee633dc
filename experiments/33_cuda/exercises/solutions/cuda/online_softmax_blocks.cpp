#include "experiments/33_cuda/exercises/cuda/online_softmax_blocks_kernel.h"

namespace folio::exercises {

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

}  // namespace folio::exercises
