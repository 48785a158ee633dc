// The kernels of loops.h on tensors, with rows divided among LibTorch's threads. T is the type of activations, R =
// Real<T> that of the residual stream. Tensors must be contiguous, on the CPU and of these types. Operations appear in
// LibTorch's profilers under their recorded names. Shapes: B sequences of T positions, N = B T rows, D model width, C
// columns of queries, keys and values, F hidden width.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "train/fused/loops.h"
#include "train/lora/frozen.h"

#ifndef INTRA_OP_PARALLEL
#error at::parallel_for would run on one thread: files that include this have to be compiled with OpenMP
#endif

namespace folio::train::fused {

using lora::product_type;
using torch::Tensor;

template <typename T>
constexpr torch::ScalarType kType = std::is_same_v<T, BFloat16> ? torch::kBFloat16
                                    : std::is_same_v<T, float>  ? torch::kFloat
                                                                : torch::kDouble;

/// Calls body.template operator()<T>() with the C++ type T of a scalar type.
template <typename Body>
auto with_type(torch::ScalarType type, Body&& body) {
  if (type == torch::kBFloat16) return body.template operator()<BFloat16>();
  if (type == torch::kDouble) return body.template operator()<double>();
  return body.template operator()<float>();
}

/// Caches the weight operand of a matrix product: several weights stacked in one matrix, in the type of the
/// activations. It is rebuilt only when a weight changes, so once per optimizer step.
class Operand {
 public:
  /// Returns `weights` [n_i, k], all of the same type, as one matrix [sum of n_i, k] of `type`, detached.
  Tensor get(const std::vector<Tensor>& weights, torch::ScalarType type) {
    if (weights.size() == 1 && weights[0].scalar_type() == type) return weights[0].detach();
    std::vector<std::pair<const void*, int64_t>> values;
    for (const Tensor& w : weights) values.emplace_back(w.data_ptr(), static_cast<int64_t>(w._version()));
    if (matrix_.defined() && matrix_.scalar_type() == type && values == values_) return matrix_;
    const torch::NoGradGuard no_grad;
    matrix_ = torch::empty({0}, type);  // not in place: a graph awaiting its backward pass may use the old one
    at::cat_out(matrix_, weights);
    values_ = std::move(values);
    return matrix_;
  }

 private:
  Tensor matrix_;
  std::vector<std::pair<const void*, int64_t>> values_;  ///< address and version of each weight in matrix_
};

/// Returns a pointer to a row of a tensor.
template <typename T>
T* data(const Tensor& x, size_t row = 0) {
  return static_cast<T*>(x.data_ptr()) + static_cast<int64_t>(row) * x.stride(0);
}
inline size_t columns(const Tensor& x) { return static_cast<size_t>(x.size(1)); }

/// Calls body(first, n) in parallel for disjoint ranges of rows [first, first + n), which together cover all rows of x.
template <typename Body>
void for_rows(const Tensor& x, Body&& body) {
  constexpr int64_t kAtLeast = 16;
  at::parallel_for(0, x.size(0), kAtLeast, [&](int64_t begin, int64_t end) {
    body(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  });
}

/// Returns a new tensor [N, n_columns] of type X. body(first, n, out) writes rows first .. first + n - 1 to `out`.
template <typename X, typename Body>
Tensor new_rows(int64_t N, int64_t n_columns, Body&& body) {
  const Tensor out = torch::empty({N, n_columns}, kType<X>);
  for_rows(out, [&](size_t first, size_t n) { body(first, n, data<X>(out, first)); });
  return out;
}

struct Normed {
  Tensor y;            ///< [N, D] of type T
  Tensor inverse_rms;  ///< [N] of type R
};
template <typename T>
Normed norm(const Tensor& x_ND, const Tensor& weight_D, double eps) {
  RECORD_FUNCTION("folio::norm", {});
  using R = Real<T>;
  Normed normed{.y = torch::empty_like(x_ND, kType<T>), .inverse_rms = torch::empty({x_ND.size(0)}, kType<R>)};
  for_rows(x_ND, [&](size_t first, size_t n) {
    loops<T>().rms_norm(data<R>(x_ND, first), data<R>(weight_D), eps, n, columns(x_ND), data<T>(normed.y, first),
                        data<R>(normed.inverse_rms, first));
  });
  return normed;
}

/// Returns dx [N, D] and dweight [D], both of type R: the gradients of norm(). dx includes the residual stream's
/// gradient, dstream.
template <typename T>
std::pair<Tensor, Tensor> norm_backward(const Tensor& dy_ND, const Tensor& x_ND, const Tensor& weight_D,
                                        const Tensor& inverse_rms_N, const Tensor& dstream_ND) {
  RECORD_FUNCTION("folio::norm_backward", {});
  using R = Real<T>;
  const int64_t N = x_ND.size(0);
  // Sum the weight's gradient over fixed chunks of rows, so that it does not depend on the number of threads.
  constexpr int64_t kChunk = 32;
  const int64_t chunks = (N + kChunk - 1) / kChunk;
  const Tensor dx_ND = torch::empty_like(x_ND), dweights = torch::zeros({chunks, x_ND.size(1)}, kType<R>);
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const auto first = static_cast<size_t>(chunk * kChunk);
      const auto n = static_cast<size_t>(std::min(kChunk, N - chunk * kChunk));
      loops<T>().rms_norm_backward(data<T>(dy_ND, first), data<R>(x_ND, first), data<R>(weight_D),
                                   data<R>(inverse_rms_N, first), n, columns(x_ND), data<R>(dstream_ND, first),
                                   data<R>(dx_ND, first), data<R>(dweights, static_cast<size_t>(chunk)));
    }
  });
  return {dx_ND, dweights.sum(0)};
}

/// Returns x + dropout(y), of type R.
template <typename T>
Tensor add(const Tensor& x_ND, const Tensor& y_ND, const Dropout& dropout) {
  RECORD_FUNCTION("folio::add", {});
  using R = Real<T>;
  return new_rows<R>(x_ND.size(0), x_ND.size(1), [&](size_t first, size_t n, R* out) {
    loops<T>().add(data<R>(x_ND, first), data<T>(y_ND, first), dropout, first, n, columns(x_ND), out);
  });
}

/// Returns dropout(dout), of type T, the gradient of y in add().
template <typename T>
Tensor drop(const Tensor& dout_ND, const Dropout& dropout) {
  using R = Real<T>;
  if (std::is_same_v<T, R> && !dropout.on()) return dout_ND;
  RECORD_FUNCTION("folio::drop", {});
  return new_rows<T>(dout_ND.size(0), dout_ND.size(1), [&](size_t first, size_t n, T* dy) {
    loops<T>().drop(data<R>(dout_ND, first), dropout, first, n, columns(dout_ND), dy);
  });
}

/// Applies RoPE to queries and keys in place, or the inverse rotation if `inverse` is true. `rotations` of type R,
/// [2, positions, head_dim / 2], contains cosines and sines.
template <typename T>
void rotate(const Tensor& qkv_NC, const AttentionShape& shape, const Tensor& rotations, bool inverse) {
  RECORD_FUNCTION("folio::rotate", {});
  for_rows(qkv_NC, [&](size_t first, size_t n) {
    loops<T>().rotate(data<T>(qkv_NC, first), shape, data<Real<T>>(rotations, 0), data<Real<T>>(rotations, 1), inverse,
                      first, n);
  });
}

/// Calls body(sequence, kv_head, first row of the sequence) in parallel for each sequence and key/value head.
template <typename Body>
void for_heads(int64_t rows, const AttentionShape& shape, Body&& body) {
  const auto n_kv_heads = static_cast<int64_t>(shape.n_kv_heads);
  const int64_t sequences = rows / static_cast<int64_t>(shape.n_positions);
  at::parallel_for(0, sequences * n_kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto sequence = static_cast<size_t>(i / n_kv_heads);
      body(sequence, static_cast<size_t>(i % n_kv_heads), sequence * shape.n_positions);
    }
  });
}

struct Attended {
  Tensor heads;     ///< [N, query_dim] of type T
  Tensor log_sums;  ///< log-sum-exp of scores [N, n_heads] of type R; memory layout: [sequences, n_heads, positions]
};
template <typename T>
Attended attend(const Tensor& qkv_NC, const AttentionShape& shape, const Dropout& dropout) {
  RECORD_FUNCTION("folio::attend", {});
  using R = Real<T>;
  const int64_t N = qkv_NC.size(0);
  Attended out{.heads = torch::empty({N, static_cast<int64_t>(shape.query_dim())}, kType<T>),
               .log_sums = torch::empty({N, static_cast<int64_t>(shape.n_heads)}, kType<R>)};
  for_heads(N, shape, [&](size_t sequence, size_t kv_head, size_t row) {
    loops<T>().attention(data<T>(qkv_NC, row), shape, kv_head, dropout, sequence, data<T>(out.heads, row),
                         data<R>(out.log_sums, row));
  });
  return out;
}

/// Returns dqkv [N, C] of type T, the gradient of qkv in attend().
template <typename T>
Tensor attend_backward(const Tensor& dheads, const Attended& attended, const Tensor& qkv_NC,
                       const AttentionShape& shape, const Dropout& dropout) {
  RECORD_FUNCTION("folio::attend_backward", {});
  const Tensor dqkv_NC = torch::empty_like(qkv_NC);
  for_heads(qkv_NC.size(0), shape, [&](size_t sequence, size_t kv_head, size_t row) {
    loops<T>().attention_backward(data<T>(dheads, row), data<T>(attended.heads, row), data<T>(qkv_NC, row),
                                  data<Real<T>>(attended.log_sums, row), shape, kv_head, dropout, sequence,
                                  data<T>(dqkv_NC, row));
  });
  return dqkv_NC;
}

/// Returns silu(gate) ⊙ up, [N, F] of type T.
template <typename T>
Tensor swiglu(const Tensor& gate_up_N2F) {
  RECORD_FUNCTION("folio::swiglu", {});
  const size_t F = columns(gate_up_N2F) / 2;
  return new_rows<T>(gate_up_N2F.size(0), gate_up_N2F.size(1) / 2, [&](size_t first, size_t n, T* y) {
    const T* gate = data<T>(gate_up_N2F, first);
    loops<T>().swiglu(gate, gate + F, 2 * F, nullptr, n, F, y);
  });
}

/// Returns the gradient [N, 2F] of gate and up, and the recomputed output of swiglu() [N, F].
template <typename T>
std::pair<Tensor, Tensor> swiglu_backward(const Tensor& dy_NF, const Tensor& gate_up_N2F) {
  RECORD_FUNCTION("folio::swiglu_backward", {});
  const size_t F = columns(dy_NF);
  const Tensor dgate_up_N2F = torch::empty_like(gate_up_N2F), y_NF = torch::empty_like(dy_NF);
  for_rows(dy_NF, [&](size_t first, size_t n) {
    const T* gate = data<T>(gate_up_N2F, first);
    T* dgate = data<T>(dgate_up_N2F, first);
    loops<T>().swiglu_backward(data<T>(dy_NF, first), gate, gate + F, 2 * F, nullptr, n, F, dgate, dgate + F,
                               data<T>(y_NF, first), nullptr);
  });
  return {dgate_up_N2F, y_NF};
}

/// Returns the sum of the rows' losses. If `scale` is not 0, overwrites the logits with the sum's gradient times scale.
template <typename T>
double cross_entropy(const Tensor& logits_nV, const Tensor& targets_n, double scale) {
  RECORD_FUNCTION("folio::cross_entropy", {});
  std::vector<double> losses(static_cast<size_t>(logits_nV.size(0)));  // per row, to sum in a fixed order
  for_rows(logits_nV, [&](size_t first, size_t n) {
    loops<T>().cross_entropy(data<T>(logits_nV, first), data<int64_t>(targets_n, first), n, columns(logits_nV), scale,
                             &losses[first]);
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace folio::train::fused
