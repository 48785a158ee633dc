#include "infer/cuda/numbers.h"
#include "tests/infer/cuda/counted_kernels.h"

namespace folio::infer::gpu::test {

__global__ void copy(float* y, const float* x, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}

__global__ void gather(float* y, const float* x, unsigned first, unsigned stride) {
  y[threadIdx.x] = x[first + threadIdx.x * stride];
}

__global__ void copy_words(Words* y, const Words* x) { store(&y[threadIdx.x], load(&x[threadIdx.x])); }

__global__ void shared_stride(float* y, unsigned stride) {
  FOLIO_SHARED(float, words, 1024 + 32);
  words[threadIdx.x * stride] = 1.0F;
  __syncthreads();
  y[threadIdx.x] = words[threadIdx.x * stride];
}

__global__ void shared_words(Words* y, const Words* x) {
  FOLIO_SHARED(Words, words, 32);
  store(&words[threadIdx.x], load(&x[threadIdx.x]));
  __syncthreads();
  store(&y[threadIdx.x], load(&words[threadIdx.x]));
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

__global__ void multiply_add(float* y, const float* x) {
  const float v = x[threadIdx.x];
  y[threadIdx.x] = fmaf(v, __shfl_xor_sync(kAllLanes, v, 1), 1.0F);
}

}  // namespace folio::infer::gpu::test
