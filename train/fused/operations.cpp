#include "train/fused/operations.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <vector>

namespace folio::train::fused {
namespace {

#ifndef INTRA_OP_PARALLEL
#error at::parallel_for would run on one thread: this file has to be compiled with OpenMP
#endif

using torch::Tensor;

size_t columns(const Tensor& x) { return static_cast<size_t>(x.size(1)); }

// Calls body(first, n) for ranges that together are all rows.
template <typename Body>
void for_rows(int64_t rows, Body&& body) {
  constexpr int64_t kAtLeast = 16;
  at::parallel_for(0, rows, kAtLeast, [&](int64_t begin, int64_t end) {
    body(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  });
}

// Calls body(sequence, kv_head) for each of the B G parts that share nothing.
template <typename Body>
void for_heads(int64_t rows, const AttentionShape& shape, Body&& body) {
  const auto n_kv_heads = static_cast<int64_t>(shape.n_kv_heads);
  const int64_t sequences = rows / static_cast<int64_t>(shape.n_positions);
  at::parallel_for(0, sequences * n_kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      body(static_cast<size_t>(i / n_kv_heads), static_cast<size_t>(i % n_kv_heads));
    }
  });
}

}  // namespace

template <typename T>
Normed norm(const Tensor& x_ND, const Tensor& weight_D, double eps) {
  RECORD_FUNCTION("folio::norm", {});
  using R = Real<T>;
  const size_t D = columns(x_ND);
  Normed normed{.y = torch::empty_like(x_ND, kType<T>), .inverse_rms = torch::empty({x_ND.size(0)}, kType<R>)};
  for_rows(x_ND.size(0), [&](size_t first, size_t n) {
    loops<T>().rms_norm(data<R>(x_ND) + first * D, data<R>(weight_D), eps, n, D, data<T>(normed.y) + first * D,
                        data<R>(normed.inverse_rms) + first);
  });
  return normed;
}

template <typename T>
NormGradients norm_backward(const Tensor& dy_ND, const Tensor& x_ND, const Tensor& weight_D,
                            const Tensor& inverse_rms_N, const Tensor& dstream_ND) {
  RECORD_FUNCTION("folio::norm_backward", {});
  using R = Real<T>;
  const int64_t N = x_ND.size(0);
  const size_t D = columns(x_ND);
  // The weight's gradient is a sum over rows: chunk by chunk, so that it does not depend on the number of threads.
  constexpr int64_t kChunk = 32;
  const int64_t chunks = (N + kChunk - 1) / kChunk;
  auto dx_ND = torch::empty_like(x_ND);
  const auto dweights = torch::zeros({chunks, x_ND.size(1)}, kType<R>);
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const auto first = static_cast<size_t>(chunk * kChunk);
      const auto n = static_cast<size_t>(std::min(kChunk, N - chunk * kChunk));
      loops<T>().rms_norm_backward(data<T>(dy_ND) + first * D, data<R>(x_ND) + first * D, data<R>(weight_D),
                                   data<R>(inverse_rms_N) + first, n, D, data<R>(dstream_ND) + first * D,
                                   data<R>(dx_ND) + first * D, data<R>(dweights) + static_cast<size_t>(chunk) * D);
    }
  });
  return {.dx = dx_ND, .dweight = dweights.sum(0)};
}

template <typename T>
Tensor add(const Tensor& x_ND, const Tensor& y_ND, const Dropout& dropout) {
  RECORD_FUNCTION("folio::add", {});
  using R = Real<T>;
  const size_t D = columns(x_ND);
  auto out_ND = torch::empty_like(x_ND);
  for_rows(x_ND.size(0), [&](size_t first, size_t n) {
    loops<T>().add(data<R>(x_ND) + first * D, data<T>(y_ND) + first * D, dropout, first, n, D,
                   data<R>(out_ND) + first * D);
  });
  return out_ND;
}

template <typename T>
Tensor drop(const Tensor& dout_ND, const Dropout& dropout) {
  using R = Real<T>;
  if (std::is_same_v<T, R> && !dropout.on()) return dout_ND;
  RECORD_FUNCTION("folio::drop", {});
  const size_t D = columns(dout_ND);
  auto dy_ND = torch::empty_like(dout_ND, kType<T>);
  for_rows(dout_ND.size(0), [&](size_t first, size_t n) {
    loops<T>().drop(data<R>(dout_ND) + first * D, dropout, first, n, D, data<T>(dy_ND) + first * D);
  });
  return dy_ND;
}

template <typename T>
void rotate(const Tensor& qkv_NC, const AttentionShape& shape, const Rotations<T>& rotations, bool inverse) {
  RECORD_FUNCTION("folio::rotate", {});
  for_rows(qkv_NC.size(0), [&](size_t first, size_t n) {
    loops<T>().rotate(data<T>(qkv_NC) + first * shape.qkv_dim(), shape, rotations, inverse, first, n);
  });
}

template <typename T>
Attended attend(const Tensor& qkv_NC, const AttentionShape& shape, const Dropout& dropout) {
  RECORD_FUNCTION("folio::attend", {});
  using R = Real<T>;
  const int64_t N = qkv_NC.size(0);
  Attended out{.heads = torch::empty({N, static_cast<int64_t>(shape.query_dim())}, kType<T>),
               .log_sums = torch::empty({N * static_cast<int64_t>(shape.n_heads)}, kType<R>)};
  for_heads(N, shape, [&](size_t sequence, size_t kv_head) {
    const size_t row = sequence * shape.n_positions;
    loops<T>().attention(data<T>(qkv_NC) + row * shape.qkv_dim(), shape, kv_head, dropout, sequence,
                         data<T>(out.heads) + row * shape.query_dim(), data<R>(out.log_sums) + row * shape.n_heads);
  });
  return out;
}

template <typename T>
Tensor attend_backward(const Tensor& dheads, const Attended& attended, const Tensor& qkv_NC,
                       const AttentionShape& shape, const Dropout& dropout) {
  RECORD_FUNCTION("folio::attend_backward", {});
  using R = Real<T>;
  auto dqkv_NC = torch::empty_like(qkv_NC);
  for_heads(qkv_NC.size(0), shape, [&](size_t sequence, size_t kv_head) {
    const size_t row = sequence * shape.n_positions;
    loops<T>().attention_backward(
        data<T>(dheads) + row * shape.query_dim(), data<T>(attended.heads) + row * shape.query_dim(),
        data<T>(qkv_NC) + row * shape.qkv_dim(), data<R>(attended.log_sums) + row * shape.n_heads, shape, kv_head,
        dropout, sequence, data<T>(dqkv_NC) + row * shape.qkv_dim());
  });
  return dqkv_NC;
}

template <typename T>
Tensor swiglu(const Tensor& gate_up_N2F) {
  RECORD_FUNCTION("folio::swiglu", {});
  const size_t F = columns(gate_up_N2F) / 2;
  auto y_NF = torch::empty({gate_up_N2F.size(0), gate_up_N2F.size(1) / 2}, kType<T>);
  for_rows(y_NF.size(0), [&](size_t first, size_t n) {
    loops<T>().swiglu(data<T>(gate_up_N2F) + first * 2 * F, n, F, data<T>(y_NF) + first * F);
  });
  return y_NF;
}

template <typename T>
std::pair<Tensor, Tensor> swiglu_backward(const Tensor& dy_NF, const Tensor& gate_up_N2F) {
  RECORD_FUNCTION("folio::swiglu_backward", {});
  const size_t F = columns(dy_NF);
  auto dgate_up_N2F = torch::empty_like(gate_up_N2F), y_NF = torch::empty_like(dy_NF);
  for_rows(dy_NF.size(0), [&](size_t first, size_t n) {
    loops<T>().swiglu_backward(data<T>(dy_NF) + first * F, data<T>(gate_up_N2F) + first * 2 * F, n, F,
                               data<T>(dgate_up_N2F) + first * 2 * F, data<T>(y_NF) + first * F);
  });
  return {dgate_up_N2F, y_NF};
}

template <typename T>
double cross_entropy(const Tensor& logits_nV, const Tensor& targets_n, double scale) {
  RECORD_FUNCTION("folio::cross_entropy", {});
  const size_t V = columns(logits_nV);
  std::vector<double> losses(static_cast<size_t>(logits_nV.size(0)));  // one for each row: a fixed order of the sum
  for_rows(logits_nV.size(0), [&](size_t first, size_t n) {
    for (size_t i = first; i < first + n; ++i) {
      loops<T>().cross_entropy(data<T>(logits_nV) + i * V, data<int64_t>(targets_n) + i, 1, V, scale, &losses[i]);
    }
  });
  double sum = 0.0;
  for (const double loss : losses) sum += loss;
  return sum;
}

#define FOLIO_INSTANTIATE(T)                                                                                          \
  template Normed norm<T>(const Tensor&, const Tensor&, double);                                                      \
  template NormGradients norm_backward<T>(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&); \
  template Tensor add<T>(const Tensor&, const Tensor&, const Dropout&);                                               \
  template Tensor drop<T>(const Tensor&, const Dropout&);                                                             \
  template void rotate<T>(const Tensor&, const AttentionShape&, const Rotations<T>&, bool);                           \
  template Attended attend<T>(const Tensor&, const AttentionShape&, const Dropout&);                                  \
  template Tensor attend_backward<T>(const Tensor&, const Attended&, const Tensor&, const AttentionShape&,            \
                                     const Dropout&);                                                                 \
  template Tensor swiglu<T>(const Tensor&);                                                                           \
  template std::pair<Tensor, Tensor> swiglu_backward<T>(const Tensor&, const Tensor&);                                \
  template double cross_entropy<T>(const Tensor&, const Tensor&, double);
FOLIO_INSTANTIATE(BFloat16)
FOLIO_INSTANTIATE(float)
FOLIO_INSTANTIATE(double)
#undef FOLIO_INSTANTIATE

}  // namespace folio::train::fused
