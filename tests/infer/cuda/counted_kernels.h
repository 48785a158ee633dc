// Kernels whose operation counts can be computed by hand, for counts_test.cpp.
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
/// Like shared_stride, but with consecutive 16-byte words.
__global__ void shared_words(Words* y, const Words* x);
/// Even lanes add 1 to y, then odd lanes, then all lanes.
__global__ void branch(float* y);
/// Lane i adds x[0] + … + x[i] to y[i]: a loop that ends at a different time for each lane.
__global__ void loop(float* y, const float* x);
/// In iteration i < n, the lanes for which lane + i is even add x[i]. So even and odd lanes alternate.
__global__ void skips(float* y, const float* x, unsigned n);
/// Threads with an index below n copy x to y. The others return at once.
__global__ void early_return(float* y, const float* x, unsigned n);
/// Computes y[i] = x[i] * x[i ^ 1] + 1 with a shuffle and fmaf.
__global__ void multiply_add(float* y, const float* x);

}  // namespace folio::infer::gpu::test
