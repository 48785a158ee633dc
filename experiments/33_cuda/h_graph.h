// Step (h): a decoding step as a CUDA graph. out = x + down · (silu(gate · n) · (up · n)), n = RMSNorm(x) · weight, for
// one row x: the feed-forward network of a layer.
#pragma once

#include <cstddef>

#include "infer/cuda/device.h"

namespace folio::experiments {

/// The arguments of the feed-forward network, in device memory.
struct FeedForward {
  const float* x;       // (dim)
  const float* weight;  // (dim), of the norm
  const float* gate;    // (hidden, dim)
  const float* up;      // (hidden, dim)
  const float* down;    // (dim, hidden)
  float eps;
  size_t dim;
  size_t hidden;
  float* normed;  // (dim), an intermediate result, as are the next three
  float* gated;   // (hidden)
  float* upped;   // (hidden)
  float* branch;  // (dim)
  float* out;     // (dim)
};

/// Computes the feed-forward network in six launches: norm, gate, up, SwiGLU, down, and the addition of x.
void feed_forward_launches(infer::gpu::Stream& stream, const FeedForward& f);
/// Computes the feed-forward network in two launches: norm, gate, up and SwiGLU; then down and the addition of x.
void feed_forward_fused(infer::gpu::Stream& stream, const FeedForward& f);

}  // namespace folio::experiments
