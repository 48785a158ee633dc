// Kernels whose operation counts can be computed by hand, for counts_test.cpp.
#pragma once

#include "infer/cuda/kernel.h"

namespace folio::infer::gpu::test {

/// Copies n elements from x to y.
__global__ void copy(float* y, const float* x, unsigned n);
/// Copies every `stride`-th element of x, from `first` on, to y.
__global__ void gather(float* y, const float* x, unsigned first, unsigned stride);
/// Copies x to y in 16-byte words.
__global__ void copy_words(Words* y, const Words* x);
/// Each thread writes word threadIdx.x * stride of a shared array of 1024 + 32 words, then reads it after a barrier.
__global__ void shared_stride(float* y, unsigned stride);
/// Copies x to y in 16-byte words through shared memory, with a barrier between.
__global__ void shared_words(Words* y, const Words* x);
/// Even lanes store to y (64 elements), then odd lanes, then all lanes.
__global__ void branch(float* y);
/// Lane i stores x[0] + … + x[i] in y[i], with a loop that ends after a different iteration for each lane.
__global__ void loop(float* y, const float* x);
/// In iteration i < n, only lanes for which lane + i is even add x[i] to their sum, so even and odd lanes alternate.
__global__ void skips(float* y, const float* x, unsigned n);
/// Computes y[i] = x[i] * x[i ^ 1] + 1 with a shuffle and fmaf.
__global__ void multiply_add(float* y, const float* x);

}  // namespace folio::infer::gpu::test
