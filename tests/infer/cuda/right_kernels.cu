#include "tests/infer/cuda/test_kernels.h"

namespace folio::infer::gpu::test {

__global__ void scale(float* x, float by, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}

__global__ void joins(unsigned* total, unsigned* parts, unsigned* done) {
  parts[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(done, 1U) != gridDim.x - 1) return;
  *total = 0;
  for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) *total += parts[i];
}

__global__ void joins_with_own_fences(unsigned* total, unsigned* parts, unsigned* done) {
  FOLIO_SHARED(unsigned, is_last, 1);
  parts[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) *is_last = atomicAdd(done, 1U) == gridDim.x - 1 ? 1U : 0U;
  __syncthreads();
  if (*is_last == 0) return;
  unsigned sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x * blockDim.x; i += blockDim.x) sum += parts[i];
  atomicAdd(total, sum);
}

__global__ void warp_words(unsigned* out) {
  const unsigned lane = threadIdx.x % kWarp;
  unsigned* mine = out + lane * 4;
  mine[0] = __shfl_sync(kAllLanes, lane * 10, 5);
  mine[1] = __shfl_xor_sync(kAllLanes, lane * 10, 3);
  mine[2] = __shfl_down_sync(kAllLanes, lane * 10, 4);
  mine[3] = __shfl_up_sync(kAllLanes, lane * 10, 4);
}

__global__ void halves(unsigned* out) {
  const unsigned lane = threadIdx.x % kWarp;
  unsigned x = lane;
  if (lane < 16) {
    for (int i = 0; i < 3; ++i) x = __shfl_xor_sync(0x0000FFFFU, x, 1);
  } else {
    x = __shfl_xor_sync(0xFFFF0000U, x, 2);
    x = static_cast<unsigned>(__shfl_xor_sync(0xFFFF0000U, static_cast<uint64_t>(x) << 32U, 4) >> 32U);
  }
  __syncwarp();
  out[lane] = __shfl_xor_sync(kAllLanes, x, 16);
}

__global__ void indices(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000000 * block + thread;
}

}  // namespace folio::infer::gpu::test
