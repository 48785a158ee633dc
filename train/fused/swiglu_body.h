// y = silu(g) ⊙ u with silu(g) = g s and s = 1 / (1 + e^-g).
//
// Backward. s' = s (1 - s), so silu'(g) = s + g s (1 - s) = s (1 + g (1 - s)):
//   du = dy silu(g),   dg = dy u s (1 + g (1 - s)).
// y is computed once more instead of being kept for the gradient of the product that follows.
#pragma once

#include "train/fused/numbers.h"

namespace folio::train::fused {
namespace {

template <typename T>
void swiglu(const T* gate_up, size_t n, size_t dim, T* y) {
  using R = Real<T>;
  for (size_t i = 0; i < n; ++i, gate_up += 2 * dim, y += dim) {
    const T* up = gate_up + dim;
#pragma omp simd
    for (size_t j = 0; j < dim; ++j) {
      const R g = real(gate_up[j]);
      y[j] = rounded<T>(g / (1 + exp(-g)) * real(up[j]));
    }
  }
}

template <typename T>
void swiglu_backward(const T* dy, const T* gate_up, size_t n, size_t dim, T* dgate_up, T* y) {
  using R = Real<T>;
  for (size_t i = 0; i < n; ++i, dy += dim, gate_up += 2 * dim, dgate_up += 2 * dim, y += dim) {
    const T* up = gate_up + dim;
    T* dup = dgate_up + dim;
#pragma omp simd
    for (size_t j = 0; j < dim; ++j) {
      const R g = real(gate_up[j]), u = real(up[j]), d = real(dy[j]);
      const R s = 1 / (1 + exp(-g));
      const R silu = g * s;
      y[j] = rounded<T>(silu * u);
      dup[j] = rounded<T>(d * silu);
      dgate_up[j] = rounded<T>(d * u * s * (1 + g * (1 - s)));
    }
  }
}

}  // namespace
}  // namespace folio::train::fused
