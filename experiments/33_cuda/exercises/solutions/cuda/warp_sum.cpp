#include "experiments/33_cuda/exercises/cuda/warp_sum_kernel.h"

namespace folio::exercises {

__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

}  // namespace folio::exercises
