// Step (a): SwiGLU with one thread per element. out_i = silu(gate_i) · up_i, silu(x) = x / (1 + e^-x).
#pragma once

#include <cstddef>

#include "infer/cuda/device.h"

namespace folio::experiments {

/// Computes SwiGLU with one thread per element, so that neighboring lanes access neighboring elements.
void swiglu_elements(infer::gpu::Stream& stream, const float* gate, const float* up, size_t n, float* out);
/// Computes SwiGLU with one thread per eight consecutive elements: the lanes of a warp read 32 bytes apart.
void swiglu_eights(infer::gpu::Stream& stream, const float* gate, const float* up, size_t n, float* out);
/// Computes SwiGLU with one thread per four elements, loaded as one 16-byte vector. n must be a multiple of 4.
void swiglu_fours(infer::gpu::Stream& stream, const float* gate, const float* up, size_t n, float* out);
/// Like swiglu_elements, but without the check i < n: threads past the end access memory outside the arrays.
void swiglu_unchecked(infer::gpu::Stream& stream, const float* gate, const float* up, size_t n, float* out);

}  // namespace folio::experiments
