// The loops on tensors, their rows shared among LibTorch's threads. T is the type of the activations between two matrix
// products, R = Real<T> that of the residual stream; tensors are contiguous, on a CPU, and of these types.
// Shapes: B sequences of T positions, N = B T rows, D model width, C columns of queries, keys and values, F hidden
// width. LibTorch's profilers see each operation by the name that it records.
#pragma once

#include <torch/types.h>

#include <utility>

#include "train/fused/loops.h"
#include "train/lora/frozen.h"

namespace folio::train::fused {

template <typename T>
constexpr torch::ScalarType kType = torch::kBFloat16;
template <>
constexpr torch::ScalarType kType<float> = torch::kFloat;
template <>
constexpr torch::ScalarType kType<double> = torch::kDouble;

/// Calls body.template operator()<T>() for the T of a type.
template <typename Body>
auto with_type(torch::ScalarType type, Body&& body) {
  if (type == torch::kBFloat16) return body.template operator()<BFloat16>();
  if (type == torch::kDouble) return body.template operator()<double>();
  return body.template operator()<float>();
}

using lora::product_type;

/// The numbers of a tensor.
template <typename T>
T* data(const torch::Tensor& x) {
  return static_cast<T*>(x.data_ptr());
}

struct Normed {
  torch::Tensor y;            ///< [N, D] of T
  torch::Tensor inverse_rms;  ///< [N] of R
};
template <typename T>
Normed norm(const torch::Tensor& x_ND, const torch::Tensor& weight_D, double eps);

struct NormGradients {
  torch::Tensor dx;       ///< [N, D] of R: dstream, and the gradient of norm() by x
  torch::Tensor dweight;  ///< [D] of R
};
template <typename T>
NormGradients norm_backward(const torch::Tensor& dy_ND, const torch::Tensor& x_ND, const torch::Tensor& weight_D,
                            const torch::Tensor& inverse_rms_N, const torch::Tensor& dstream_ND);

/// x + dropped(y), of R.
template <typename T>
torch::Tensor add(const torch::Tensor& x_ND, const torch::Tensor& y_ND, const Dropout& dropout);
/// Its gradient by y: dropped(dout), of T.
template <typename T>
torch::Tensor drop(const torch::Tensor& dout_ND, const Dropout& dropout);

/// Rotates queries and keys in place.
template <typename T>
void rotate(const torch::Tensor& qkv_NC, const AttentionShape& shape, const Rotations<T>& rotations, bool inverse);

struct Attended {
  torch::Tensor heads;     ///< [N, query_dim] of T
  torch::Tensor log_sums;  ///< [B, H T] of R
};
template <typename T>
Attended attend(const torch::Tensor& qkv_NC, const AttentionShape& shape, const Dropout& dropout);
/// dqkv [N, C] of T.
template <typename T>
torch::Tensor attend_backward(const torch::Tensor& dheads, const Attended& attended, const torch::Tensor& qkv_NC,
                              const AttentionShape& shape, const Dropout& dropout);

/// silu(gate) ⊙ up, [N, F] of T.
template <typename T>
torch::Tensor swiglu(const torch::Tensor& gate_up_N2F);
/// Its gradient [N, 2F], and its value once more.
template <typename T>
std::pair<torch::Tensor, torch::Tensor> swiglu_backward(const torch::Tensor& dy_NF, const torch::Tensor& gate_up_N2F);

/// The sum of the losses of logits [n, V] of T, which become its gradient times `scale`, if that is not 0.
template <typename T>
double cross_entropy(const torch::Tensor& logits_nV, const torch::Tensor& targets_n, double scale);

}  // namespace folio::train::fused
