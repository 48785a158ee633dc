// RMSNorm of one row: y_j = w_j x_j r with r = (mean(x²) + eps)^(-1/2).
//
// Backward. With the incoming gradient g_j = dy_j w_j (by x_j r) and x̂ = x r:
//   ∂r/∂x_k = -r³ x_k / D, so  dx_k = r g_k + Σ_j g_j x_j ∂r/∂x_k = r (g_k - x̂_k · mean(g ⊙ x̂)),
//   dw_j = Σ over the rows of dy_j x̂_j.
// The norm reads the residual stream, which goes on beside it: the stream's own gradient is added in the same pass.
#pragma once

#include "train/fused/numbers.h"

namespace folio::train::fused {
namespace {

template <typename T>
void rms_norm(const Real<T>* x, const Real<T>* weight, double eps, size_t n, size_t dim, T* y, Real<T>* inverse_rms) {
  using R = Real<T>;
  for (size_t i = 0; i < n; ++i, x += dim, y += dim) {
    R squares = 0;
#pragma omp simd reduction(+ : squares)
    for (size_t j = 0; j < dim; ++j) squares += x[j] * x[j];
    const R r = 1 / std::sqrt(squares / static_cast<R>(dim) + static_cast<R>(eps));
    inverse_rms[i] = r;
#pragma omp simd
    for (size_t j = 0; j < dim; ++j) y[j] = rounded<T>(x[j] * r * weight[j]);
  }
}

template <typename T>
void rms_norm_backward(const T* dy, const Real<T>* x, const Real<T>* weight, const Real<T>* inverse_rms, size_t n,
                       size_t dim, const Real<T>* dstream, Real<T>* dx, Real<T>* dweight) {
  using R = Real<T>;
  for (size_t i = 0; i < n; ++i, dy += dim, x += dim, dstream += dim, dx += dim) {
    const R r = inverse_rms[i];
    R sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < dim; ++j) {
      const R product = real(dy[j]) * x[j] * r;
      dweight[j] += product;
      sum += product * weight[j];
    }
    const R mean = sum / static_cast<R>(dim);
#pragma omp simd
    for (size_t j = 0; j < dim; ++j) dx[j] = dstream[j] + r * (real(dy[j]) * weight[j] - x[j] * r * mean);
  }
}

}  // namespace
}  // namespace folio::train::fused
