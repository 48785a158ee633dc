// Backward passes without autograd. Each computes the gradients of an operation's input and parameters from dy, the
// gradient of the loss with respect to the output. README.md derives them. Each pass can include its most common
// mistake, to study the consequences.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>

#include "modules/attention.h"
#include "modules/llama.h"

namespace folio::experiments::by_hand {

/// Selects the operation whose backward pass is computed with its most common mistake.
enum class Mistake {
  None,
  RmsNorm,       ///< treats the root mean square as a constant: omits the term of its derivative
  Rope,          ///< rotates the gradient forward again instead of back
  Softmax,       ///< uses only ∂p_i / ∂s_i: omits the contributions of other scores
  SwiGlu,        ///< uses silu′(z) = σ(z): omits the second term of the product rule
  CrossEntropy,  ///< gradient of the sum instead of the mean: not divided by the number of targets
};

/// Gradients of an operation's input and its weight, in their shapes.
struct Gradients {
  torch::Tensor x, weight;
};

/// Returns the gradients of y = x Wᵀ. x [..., I], weight [O, I], dy [..., O].
[[nodiscard]] Gradients linear_backward(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& dy);

/// Returns the gradients of nn::RMSNorm for x [..., D] and weight [D].
[[nodiscard]] Gradients rms_norm_backward(const torch::Tensor& x, const torch::Tensor& weight, double eps,
                                          const torch::Tensor& dy, Mistake mistake = Mistake::None);

/// Returns the gradient of the input of nn::RopeCache::apply. dy [B, T, H, K], rotations complex [>= T, K / 2].
[[nodiscard]] torch::Tensor rope_backward(const torch::Tensor& rotations, const torch::Tensor& dy,
                                          Mistake mistake = Mistake::None);

/// Returns the gradient of the scores s, from p = softmax(s) over the last dimension and its gradient dp. Masked scores
/// have p = 0, so their gradient is 0.
[[nodiscard]] torch::Tensor softmax_backward(const torch::Tensor& p, const torch::Tensor& dp,
                                             Mistake mistake = Mistake::None);

/// Gradients of nn::Attention for x [B, T, D]. Each has the shape of x or of the weight.
struct AttentionGradients {
  torch::Tensor x, wq, wk, wv, wo;
};
[[nodiscard]] AttentionGradients attention_backward(nn::AttentionImpl& attention, const torch::Tensor& x,
                                                    const torch::Tensor& dy, Mistake mistake = Mistake::None);

/// Gradients of nn::SwiGLU for x [..., D], w1, w3 [F, D] and w2 [D, F].
struct SwiGluGradients {
  torch::Tensor x, w1, w2, w3;
};
[[nodiscard]] SwiGluGradients swiglu_backward(const torch::Tensor& x, const torch::Tensor& w1, const torch::Tensor& w2,
                                              const torch::Tensor& w3, const torch::Tensor& dy,
                                              Mistake mistake = Mistake::None);

/// Returns the gradient of the mean cross-entropy with respect to `logits` [N, V]. `targets` [N] are class indices.
[[nodiscard]] torch::Tensor cross_entropy_backward(const torch::Tensor& logits, const torch::Tensor& targets,
                                                   Mistake mistake = Mistake::None);

/// Returns the gradients of nn::Llama::loss for all parameters, by name. `tokens` and `targets` are [B, T].
[[nodiscard]] std::map<std::string, torch::Tensor> llama_backward(nn::Llama& model, const torch::Tensor& tokens,
                                                                  const torch::Tensor& targets,
                                                                  Mistake mistake = Mistake::None);

// Naive forms for comparison: return each row's Jacobian J_ij = ∂y_i / ∂x_j as a full matrix. dx = Jᵀ dy.

[[nodiscard]] torch::Tensor rms_norm_jacobian(const torch::Tensor& x, const torch::Tensor& weight,
                                              double eps);                  ///< [..., D] to [..., D, D]
[[nodiscard]] torch::Tensor rope_jacobian(const torch::Tensor& rotations);  ///< complex [T, P] to [T, 2P, 2P]
[[nodiscard]] torch::Tensor softmax_jacobian(const torch::Tensor& p);       ///< [..., V] to [..., V, V]
[[nodiscard]] torch::Tensor silu_jacobian(const torch::Tensor& z);          ///< [..., F] to [..., F, F], diagonal

/// Returns dx = Jᵀ dy for each row: jacobian [..., N, M], dy [..., N], dx [..., M].
[[nodiscard]] torch::Tensor through(const torch::Tensor& jacobian, const torch::Tensor& dy);

}  // namespace folio::experiments::by_hand
