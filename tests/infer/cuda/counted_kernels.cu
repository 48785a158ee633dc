#include "tests/infer/cuda/counted_kernels.h"

namespace folio::infer::gpu::test {

__global__ void copy(float* y, const float* x, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}

__global__ void gather(float* y, const float* x, unsigned first, unsigned stride) {
  y[threadIdx.x] = x[first + threadIdx.x * stride];
}

__global__ void branch(float* y) {
  if (threadIdx.x % 2 == 0) {
    y[threadIdx.x] = 1.0F;
  } else {
    y[threadIdx.x] = 2.0F;
  }
  y[32 + threadIdx.x] = 3.0F;
}

__global__ void loop(float* y, const float* x) {
  float sum = 0.0F;
  for (unsigned i = 0; i <= threadIdx.x; ++i) sum += x[i];
  y[threadIdx.x] = sum;
}

__global__ void skips(float* y, const float* x, unsigned n) {
  float sum = 0.0F;
  for (unsigned i = 0; i < n; ++i) {
    if ((threadIdx.x + i) % 2 == 0) sum += x[i];
  }
  y[threadIdx.x] = sum;
}

__global__ void early_return(float* y, const float* x, unsigned n) {
  if (threadIdx.x >= n) return;
  y[threadIdx.x] = x[threadIdx.x];
}

}  // namespace folio::infer::gpu::test
