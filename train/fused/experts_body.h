// The loops of an expert between its products: y = g silu(G) ⊙ U for rows with a weight g each, and its gradients,
// which are those of swiglu_body.h with dy g in place of dy, and dg = Σ dy silu(G) U. And sums of rows.
#pragma once

#include "train/fused/numbers.h"

namespace folio::train::fused {
namespace {

template <typename T>
void expert_hidden(const T* gate, const T* up, const Real<T>* weight, size_t n, size_t dim, T* y) {
  using R = Real<T>;
  for (size_t i = 0; i < n; ++i, gate += dim, up += dim, y += dim) {
    const R w = weight[i];
#pragma omp simd
    for (size_t j = 0; j < dim; ++j) {
      const R g = real(gate[j]);
      y[j] = rounded<T>(w * g / (1 + exp(-g)) * real(up[j]));
    }
  }
}

template <typename T>
void expert_hidden_backward(const T* dy, const T* gate, const T* up, const Real<T>* weight, size_t n, size_t dim,
                            T* dgate, T* dup, T* y, Real<T>* dweight) {
  using R = Real<T>;
  for (size_t i = 0; i < n; ++i, dy += dim, gate += dim, up += dim, dgate += dim, dup += dim, y += dim) {
    const R w = weight[i];
    R sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < dim; ++j) {
      const R g = real(gate[j]), u = real(up[j]), d = real(dy[j]);
      const R s = 1 / (1 + exp(-g));
      const R silu = g * s;
      y[j] = rounded<T>(w * silu * u);
      dup[j] = rounded<T>(w * d * silu);
      dgate[j] = rounded<T>(w * d * u * s * (1 + g * (1 - s)));
      sum += d * silu * u;
    }
    dweight[i] = sum;
  }
}

template <typename T>
void sum_rows(const T* x, const int64_t* rows, size_t n, size_t n_summed, size_t dim, Real<T>* out) {
  for (size_t i = 0; i < n; ++i, rows += n_summed, out += dim) {
    const T* first = x + static_cast<size_t>(rows[0]) * dim;
#pragma omp simd
    for (size_t j = 0; j < dim; ++j) out[j] = real(first[j]);
    for (size_t k = 1; k < n_summed; ++k) {
      const T* next = x + static_cast<size_t>(rows[k]) * dim;
#pragma omp simd
      for (size_t j = 0; j < dim; ++j) out[j] += real(next[j]);
    }
  }
}

}  // namespace
}  // namespace folio::train::fused
