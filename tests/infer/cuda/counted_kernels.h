// Kernels whose counts are known by hand, for counts_test.cpp.
#pragma once

#include "infer/cuda/kernel.h"

namespace folio::infer::gpu::test {

/// Copies x to y (n).
__global__ void copy(float* y, const float* x, unsigned n);
/// Copies every `stride`-th element of x, from `first` on, to y.
__global__ void gather(float* y, const float* x, unsigned first, unsigned stride);
/// Copies x to y in 16-byte words.
__global__ void copy_words(Words* y, const Words* x);
/// Each thread writes and reads word threadIdx.x * stride of a shared array of 1024 + 32 words, between barriers.
__global__ void shared_stride(float* y, unsigned stride);
/// As shared_stride, with 16-byte words that follow one another.
__global__ void shared_words(Words* y, const Words* x);
/// Lanes with an even index add 1 to y, then the odd ones; then all add 1.
__global__ void branch(float* y);
/// Lane i adds x[0] + … + x[i] to y[i]: a loop that ends at a different time for each lane.
__global__ void loop(float* y, const float* x);
/// Adds x[i], i < n, in the lanes for which lane + i is even: the lanes alternate.
__global__ void skips(float* y, const float* x, unsigned n);
/// Lanes return at once unless threadIdx.x is less than n; the others copy.
__global__ void early_return(float* y, const float* x, unsigned n);
/// y = x * x + 1 by fmaf, and a shuffle.
__global__ void multiply_add(float* y, const float* x);

}  // namespace folio::infer::gpu::test
