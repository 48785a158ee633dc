// Step (b): RMSNorm, a block per row. out_i = x_i / sqrt(mean(x²) + eps) · weight_i, for each row of x (rows, dim).
#pragma once

#include <cstddef>

#include "infer/cuda/device.h"

namespace folio::experiments {

/// The arguments of an RMSNorm, in device memory.
struct Norm {
  const float* x;       // (rows, dim)
  const float* weight;  // (dim)
  float eps;
  size_t rows;
  size_t dim;
  float* out;  // (rows, dim)
};

/// Normalizes each row with one thread, which adds all of the row's squares.
void norm_threads(infer::gpu::Stream& stream, const Norm& n);
/// Normalizes each row with a block of 256 threads, with a tree reduction of the sums in shared memory.
void norm_shared(infer::gpu::Stream& stream, const Norm& n);
/// Normalizes each row with a block of 256 threads, whose sums are reduced by shuffles. Shared memory only passes the
/// sums of warps to the other warps.
void norm_shuffles(infer::gpu::Stream& stream, const Norm& n);

}  // namespace folio::experiments
