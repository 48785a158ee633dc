#include <algorithm>
#include <cmath>

#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

void swiglu(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0F + exp(-gate[i])) * up[i];
}

void geglu(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) {
    const float g = gate[i];
    const float inner = std::fma(g * g * g, kGeluCube, g) * kGeluFactor;
    out[i] = g / (1.0F + exp(0.0F - inner)) * up[i];
  }
}

void clamped_swiglu(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) {
    const float g = std::min(gate[i], core::kGateLimit);  // propagates NaN
    const float u = std::max(std::min(up[i], core::kGateLimit), -core::kGateLimit);
    out[i] = g / (1.0F + exp(0.0F - core::kGateSlope * g)) * (u + 1.0F);
  }
}

void soft_cap(float* x, size_t n, float cap) {
  for (size_t i = 0; i < n; ++i) x[i] = cap - 2.0F * cap / (exp(x[i] * (2.0F / cap)) + 1.0F);
}

}  // namespace folio::infer::kernels::reference
