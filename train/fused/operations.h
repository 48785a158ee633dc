// The loops on tensors, their rows shared among LibTorch's threads. T is the type of the activations between two matrix
// products, R = Real<T> that of the residual stream; tensors are contiguous, on a CPU, and of these types.
// Shapes: B sequences of T positions, N = B T rows, D model width, C columns of queries, keys and values, F hidden
// width. LibTorch's profilers see each operation by the name that it records.
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

/// Calls body.template operator()<T>() for the T of a type.
template <typename Body>
auto with_type(torch::ScalarType type, Body&& body) {
  if (type == torch::kBFloat16) return body.template operator()<BFloat16>();
  if (type == torch::kDouble) return body.template operator()<double>();
  return body.template operator()<float>();
}

/// The weights of a matrix product as the product wants them: several stacked in one matrix, in the type of the
/// activations. They are made once for each value of the weights, so once a step, not once for each use.
class Operand {
 public:
  /// `weights` [n_i, k], all of one type and k, as one matrix [sum of n_i, k] of type `type`, without autograd.
  Tensor get(const std::vector<Tensor>& weights, torch::ScalarType type) {
    if (weights.size() == 1 && weights[0].scalar_type() == type) return weights[0].detach();
    std::vector<std::pair<const void*, int64_t>> values;
    for (const Tensor& w : weights) values.emplace_back(w.data_ptr(), static_cast<int64_t>(w._version()));
    if (matrix_.defined() && matrix_.scalar_type() == type && values == values_) return matrix_;
    const torch::NoGradGuard no_grad;
    matrix_ = torch::empty({0}, type);  // a new one: a graph that is not yet gone back through may hold the last
    at::cat_out(matrix_, weights);
    values_ = std::move(values);
    return matrix_;
  }

 private:
  Tensor matrix_;
  std::vector<std::pair<const void*, int64_t>> values_;  ///< of the weights: where each is, and its version
};

/// The numbers of a tensor, from a row on.
template <typename T>
T* data(const Tensor& x, size_t row = 0) {
  return static_cast<T*>(x.data_ptr()) + static_cast<int64_t>(row) * x.stride(0);
}
inline size_t columns(const Tensor& x) { return static_cast<size_t>(x.size(1)); }

/// Calls body(first, n) for ranges that together are all rows of x.
template <typename Body>
void for_rows(const Tensor& x, Body&& body) {
  constexpr int64_t kAtLeast = 16;
  at::parallel_for(0, x.size(0), kAtLeast, [&](int64_t begin, int64_t end) {
    body(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  });
}

/// A new tensor [N, n_columns] of X, which body(first, n, out) fills: the rows from the first on at `out`.
template <typename X, typename Body>
Tensor new_rows(int64_t N, int64_t n_columns, Body&& body) {
  const Tensor out = torch::empty({N, n_columns}, kType<X>);
  for_rows(out, [&](size_t first, size_t n) { body(first, n, data<X>(out, first)); });
  return out;
}

struct Normed {
  Tensor y;            ///< [N, D] of T
  Tensor inverse_rms;  ///< [N] of R
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

/// dx [N, D]: dstream, and the gradient of norm() by x; and dweight [D], of R.
template <typename T>
std::pair<Tensor, Tensor> norm_backward(const Tensor& dy_ND, const Tensor& x_ND, const Tensor& weight_D,
                                        const Tensor& inverse_rms_N, const Tensor& dstream_ND) {
  RECORD_FUNCTION("folio::norm_backward", {});
  using R = Real<T>;
  const int64_t N = x_ND.size(0);
  // The weight's gradient is a sum over rows: chunk by chunk, so that it does not depend on the number of threads.
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

/// x + dropped(y), of R.
template <typename T>
Tensor add(const Tensor& x_ND, const Tensor& y_ND, const Dropout& dropout) {
  RECORD_FUNCTION("folio::add", {});
  using R = Real<T>;
  return new_rows<R>(x_ND.size(0), x_ND.size(1), [&](size_t first, size_t n, R* out) {
    loops<T>().add(data<R>(x_ND, first), data<T>(y_ND, first), dropout, first, n, columns(x_ND), out);
  });
}

/// Its gradient by y: dropped(dout), of T.
template <typename T>
Tensor drop(const Tensor& dout_ND, const Dropout& dropout) {
  using R = Real<T>;
  if (std::is_same_v<T, R> && !dropout.on()) return dout_ND;
  RECORD_FUNCTION("folio::drop", {});
  return new_rows<T>(dout_ND.size(0), dout_ND.size(1), [&](size_t first, size_t n, T* dy) {
    loops<T>().drop(data<R>(dout_ND, first), dropout, first, n, columns(dout_ND), dy);
  });
}

/// Rotates queries and keys in place; `rotations` [2, positions, head_dim / 2] of R are cosines and sines.
template <typename T>
void rotate(const Tensor& qkv_NC, const AttentionShape& shape, const Tensor& rotations, bool inverse) {
  RECORD_FUNCTION("folio::rotate", {});
  for_rows(qkv_NC, [&](size_t first, size_t n) {
    loops<T>().rotate(data<T>(qkv_NC, first), shape, data<Real<T>>(rotations, 0), data<Real<T>>(rotations, 1), inverse,
                      first, n);
  });
}

/// Calls body(sequence, kv_head, first_row) for each of the B G parts of an attention that share nothing.
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
  Tensor heads;     ///< [N, query_dim] of T
  Tensor log_sums;  ///< [N, H] numbers of R, those of a sequence [H, T]
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

/// dqkv [N, C] of T.
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

/// silu(gate) ⊙ up, [N, F] of T.
template <typename T>
Tensor swiglu(const Tensor& gate_up_N2F) {
  RECORD_FUNCTION("folio::swiglu", {});
  const size_t F = columns(gate_up_N2F) / 2;
  return new_rows<T>(gate_up_N2F.size(0), gate_up_N2F.size(1) / 2, [&](size_t first, size_t n, T* y) {
    const T* gate = data<T>(gate_up_N2F, first);
    loops<T>().swiglu(gate, gate + F, 2 * F, nullptr, n, F, y);
  });
}

/// Its gradient [N, 2F], and its value once more.
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

/// The sum of the losses of logits [n, V] of T, which become its gradient times `scale`, if that is not 0.
template <typename T>
double cross_entropy(const Tensor& logits_nV, const Tensor& targets_n, double scale) {
  RECORD_FUNCTION("folio::cross_entropy", {});
  std::vector<double> losses(static_cast<size_t>(logits_nV.size(0)));  // one for each row: a fixed order of the sum
  for_rows(logits_nV, [&](size_t first, size_t n) {
    loops<T>().cross_entropy(data<T>(logits_nV, first), data<int64_t>(targets_n, first), n, columns(logits_nV), scale,
                             &losses[first]);
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace folio::train::fused
