// The mistakes, each with the test that must fail first and words of its message:
//     half_of_the_lanes: AllLanesAreAdded: is 16, but
//     begins_at_32: AllLanesAreAdded: is 64, but
//     not_added: AllLanesAreAdded: is 1, but
//     if_around_a_shuffle: AllLanesAreAdded: it has to go there, too
//     first_lane_only: EveryLaneHasTheSum: __shfl_down_sync gives
//     of_the_block: WarpsAreApart: the other warp's
//     one_by_one: FiveShufflesAreEnough: The number is 31, but
#include "experiments/33_cuda/exercises/cuda/warp_sum_kernel.h"
#include "experiments/exercises/mistakes/mistakes.h"

namespace folio::exercises {

__device__ float warp_sum(float value) {
  const unsigned lane = threadIdx.x % kWarp;
  float sum = value;
  if (wrong("one_by_one")) {
    for (int from = 1; from < 32; ++from) sum += __shfl_xor_sync(kAllLanes, value, from);
    return sum;
  }
  if (wrong("of_the_block")) {
    FOLIO_SHARED(float, all, kThreads);
    all[threadIdx.x] = value;
    __syncthreads();
    sum = 0.0F;
    for (unsigned i = 0; i < blockDim.x; ++i) sum += all[i];
    return sum;
  }
  for (int distance = wrong("half_of_the_lanes") ? 8 : wrong("begins_at_32") ? 32 : 16; distance > 0; distance /= 2) {
    if (wrong("not_added")) {
      sum = __shfl_xor_sync(kAllLanes, sum, distance);
    } else if (wrong("first_lane_only")) {
      sum += __shfl_down_sync(kAllLanes, sum, static_cast<unsigned>(distance));
    } else if (wrong("if_around_a_shuffle")) {
      if (lane < static_cast<unsigned>(distance)) {
        sum += __shfl_down_sync(kAllLanes, sum, static_cast<unsigned>(distance));
      }
    } else {
      sum += __shfl_xor_sync(kAllLanes, sum, distance);
    }
  }
  return sum;
}

}  // namespace folio::exercises
