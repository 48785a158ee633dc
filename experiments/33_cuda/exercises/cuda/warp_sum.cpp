// A reduction by shuffles. The 32 lanes of a warp each have a number in a register. With
//
//     __shfl_xor_sync(kAllLanes, value, distance)
//
// each lane i passes its value and receives the value of lane i ^ distance: with distance 1, lanes 0 and 1 exchange
// values, lanes 2 and 3 do, and so on. All lanes of the mask must call it together.
//
// Example with four lanes and the values 1 2 3 4: after an exchange at distance 2 and an addition, they are 4 6 4 6.
// After an exchange at distance 1 and an addition, they are 10 10 10 10. Each step doubles the number of lanes in a
// sum, so 32 lanes need five steps.
//
// Check it with: make exercise N=warp_sum
#include "experiments/33_cuda/exercises/cuda/warp_sum_kernel.h"

namespace folio::exercises {

// Returns the sum of `value` over all lanes of the warp, in every lane.
__device__ float warp_sum(float value) {
  throw Unfilled(
      "warp_sum is still to be written, in experiments/33_cuda/exercises/cuda/warp_sum.cpp.\n"
      "Add the value of the lane at distance 16, then of the one at distance 8, 4, 2 and 1.");
}

}  // namespace folio::exercises
