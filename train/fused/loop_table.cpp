// Kernels over rows, and the table of all kernels. train/CMakeLists.txt compiles this file once per instruction set and
// defines the name of the function that returns the table (FOLIO_LOOPS).
#include "train/fused/attention_body.h"
#include "train/fused/dropout_body.h"
#include "train/fused/numbers.h"

namespace folio::train::fused {
namespace {

// RMSNorm of one row: y_j = w_j x_j r with r = (mean(x²) + eps)^(-1/2).
//
// Backward. With x̂ = x r and its gradient g_j = dy_j w_j:
//   ∂r/∂x_k = -r³ x_k / D, so  dx_k = r g_k + Σ_j g_j x_j ∂r/∂x_k = r (g_k - x̂_k · mean(g ⊙ x̂)),
//   dw_j = Σ over rows of dy_j x̂_j.
// x also feeds the residual connection: the gradient from there, dstream, is added in the same pass.
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

// RoPE in place: each pair (u, v) of each query and key becomes (u cos - v sin, u sin + v cos). Rotations are
// orthogonal, so the backward pass rotates the gradient by the opposite angle, also in place.
template <typename T>
void rotate(T* qkv, const AttentionShape& shape, const Real<T>* cosines, const Real<T>* sines, bool inverse,
            size_t first, size_t n) {
  using R = Real<T>;
  const size_t n_pairs = shape.head_dim / 2;
  const R sign = inverse ? -1 : 1;
  const auto turn = [&](T& first_half, T& second_half, R cos, R sin) {
    const R u = real(first_half), v = real(second_half);
    first_half = rounded<T>(u * cos - v * sin);
    second_half = rounded<T>(u * sin + v * cos);
  };
  for (size_t i = 0; i < n; ++i, qkv += shape.qkv_dim()) {
    const size_t position = (first + i) % shape.n_positions;
    const R* cos = cosines + position * n_pairs;
    const R* sin = sines + position * n_pairs;
    for (size_t head = 0; head < shape.n_heads + shape.n_kv_heads; ++head) {
      T* x = qkv + head * shape.head_dim;
      if (shape.pairs == core::RopePairs::Adjacent) {
#pragma omp simd
        for (size_t p = 0; p < n_pairs; ++p) turn(x[2 * p], x[2 * p + 1], cos[p], sign * sin[p]);
      } else {
#pragma omp simd
        for (size_t p = 0; p < n_pairs; ++p) turn(x[p], x[n_pairs + p], cos[p], sign * sin[p]);
      }
    }
  }
}

// y = w silu(g) ⊙ u with silu(g) = g s and s = 1 / (1 + e^-g). w is the row's expert weight, or 1 without experts.
//
// Backward. s' = s (1 - s), so silu'(g) = s + g s (1 - s) = s (1 + g (1 - s)):
//   du = w dy silu(g),   dg = w dy u s (1 + g (1 - s)),   dw = Σ dy silu(g) u.
// y, which the next product's weight gradient needs, is recomputed instead of stored.
template <typename T>
void swiglu(const T* gate, const T* up, size_t stride, const Real<T>* weight, size_t n, size_t dim, T* y) {
  using R = Real<T>;
  for (size_t i = 0; i < n; ++i, gate += stride, up += stride, y += dim) {
    const R w = weight == nullptr ? R{1} : weight[i];
#pragma omp simd
    for (size_t j = 0; j < dim; ++j) {
      const R g = real(gate[j]);
      y[j] = rounded<T>(w * g / (1 + exp(-g)) * real(up[j]));
    }
  }
}

template <typename T>
void swiglu_backward(const T* dy, const T* gate, const T* up, size_t stride, const Real<T>* weight, size_t n,
                     size_t dim, T* dgate, T* dup, T* y, Real<T>* dweight) {
  using R = Real<T>;
  for (size_t i = 0; i < n; ++i, dy += dim, gate += stride, up += stride, dgate += stride, dup += stride, y += dim) {
    const R w = weight == nullptr ? R{1} : weight[i];
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
    if (weight != nullptr) dweight[i] = sum;
  }
}

// Sums the outputs of each row's experts: row i of out is the sum of the rows of x that row i of `rows` lists.
template <typename T>
void sum_rows(const T* x, const int64_t* rows, size_t n, size_t n_summed, size_t dim, Real<T>* out) {
  for (size_t i = 0; i < n; ++i, rows += n_summed, out += dim) {
    for (size_t k = 0; k < n_summed; ++k) {
      const T* next = x + static_cast<size_t>(rows[k]) * dim;
#pragma omp simd
      for (size_t j = 0; j < dim; ++j) out[j] = k == 0 ? real(next[j]) : out[j] + real(next[j]);
    }
  }
}

// Cross-entropy of one row of logits z with target t: log Σ_j e^(z_j) - z_t. Subtracting the largest logit m avoids
// overflow: m + log Σ_j e^(z_j - m) - z_t.
// Backward: dz_j = softmax(z)_j - [j = t], which overwrites the logits.
template <typename T>
void cross_entropy(T* logits, const int64_t* targets, size_t n, size_t n_classes, double scale, double* losses) {
  using R = Real<T>;
  for (size_t i = 0; i < n; ++i, logits += n_classes) {
    const auto target = static_cast<size_t>(targets[i]);
    R largest = real(logits[0]);
#pragma omp simd reduction(max : largest)
    for (size_t j = 0; j < n_classes; ++j) largest = real(logits[j]) > largest ? real(logits[j]) : largest;
    R sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n_classes; ++j) sum += exp(real(logits[j]) - largest);
    losses[i] = static_cast<double>(largest - real(logits[target])) + std::log(static_cast<double>(sum));
    if (scale == 0) continue;
    const R factor = static_cast<R>(scale) / sum;
    const R of_target = exp(real(logits[target]) - largest) * factor - static_cast<R>(scale);
#pragma omp simd
    for (size_t j = 0; j < n_classes; ++j) logits[j] = rounded<T>(exp(real(logits[j]) - largest) * factor);
    logits[target] = rounded<T>(of_target);
  }
}

template <typename T>
constexpr Loops<T> kLoops{.rms_norm = rms_norm<T>,
                          .rms_norm_backward = rms_norm_backward<T>,
                          .add = add<T>,
                          .drop = drop<T>,
                          .rotate = rotate<T>,
                          .swiglu = swiglu<T>,
                          .swiglu_backward = swiglu_backward<T>,
                          .sum_rows = sum_rows<T>,
                          .cross_entropy = cross_entropy<T>,
                          .attention = attention<T>,
                          .attention_backward = attention_backward<T>};

constexpr LoopTables kTables{kLoops<BFloat16>, kLoops<float>, kLoops<double>};

}  // namespace

const LoopTables& FOLIO_LOOPS() { return kTables; }

}  // namespace folio::train::fused
