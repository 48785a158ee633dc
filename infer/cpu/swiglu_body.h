// Activations: SwiGLU, silu(gate) * up; GeGLU, gelu(gate) * up; gpt-oss's clamped SwiGLU. Also the soft cap of logits.
#pragma once

#include "infer/cpu/vec_math.h"

namespace folio::infer::kernels {
namespace {

void swiglu(const float* gate, const float* up, size_t n, float* out) {
  for_lanes(n, [&](size_t i, size_t count) {
    const Vec g = Vec::load_first(gate + i, count);
    const Vec silu = g / (Vec::all(1.0F) + exp(Vec::zero() - g));
    (silu * Vec::load_first(up + i, count)).store_first(out + i, count);
  });
}

void geglu(const float* gate, const float* up, size_t n, float* out) {
  for_lanes(n, [&](size_t i, size_t count) {
    const Vec g = Vec::load_first(gate + i, count);
    const Vec inner = Vec::fma(g * g * g, Vec::all(kGeluCube), g) * Vec::all(kGeluFactor);
    const Vec gelu = g / (Vec::all(1.0F) + exp(Vec::zero() - inner));
    (gelu * Vec::load_first(up + i, count)).store_first(out + i, count);
  });
}

void clamped_swiglu(const float* gate, const float* up, size_t n, float* out) {
  const Vec limit = Vec::all(core::kGateLimit), one = Vec::all(1.0F);
  for_lanes(n, [&](size_t i, size_t count) {  // NaN propagates: with NaN, min and max return the second operand
    const Vec g = Vec::min(limit, Vec::load_first(gate + i, count));
    const Vec u = Vec::max(Vec::zero() - limit, Vec::min(limit, Vec::load_first(up + i, count)));
    const Vec gated = g / (one + exp(Vec::zero() - Vec::all(core::kGateSlope) * g));
    (gated * (u + one)).store_first(out + i, count);
  });
}

void soft_cap(float* x, size_t n, float cap) {
  for_lanes(n, [&](size_t i, size_t count) { soft_cap(Vec::load_first(x + i, count), cap).store_first(x + i, count); });
}

}  // namespace
}  // namespace folio::infer::kernels
