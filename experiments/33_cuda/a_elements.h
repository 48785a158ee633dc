// Step (a): a thread an element. gate_i = silu(gate_i) · up_i, silu(x) = x / (1 + e^-x).
#pragma once

#include <cstddef>

#include "infer/cuda/device.h"

namespace folio::experiments {

/// One thread for each element i < n; neighbors in a warp read neighbors in memory.
void swiglu_elements(infer::gpu::Stream& stream, const float* gate, const float* up, size_t n, float* out);
/// One thread for eight elements that follow one another: a warp's lanes read 32 bytes apart.
void swiglu_eights(infer::gpu::Stream& stream, const float* gate, const float* up, size_t n, float* out);
/// One thread for four elements, loaded at once. n must be a multiple of 4.
void swiglu_fours(infer::gpu::Stream& stream, const float* gate, const float* up, size_t n, float* out);
/// As swiglu_elements, without the comparison with n: threads past the end read and write memory of others.
void swiglu_unchecked(infer::gpu::Stream& stream, const float* gate, const float* up, size_t n, float* out);

}  // namespace folio::experiments
