// Backward passes written out, without autograd: from the gradient of the loss with respect to a part's output, dy, to
// those with respect to its input and its parameters. Derivations: experiments/11_gradients/README.md.
// Each can be asked to make the mistake that is commonly made there, so that a study can show what it does.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>

#include "modules/attention.h"
#include "modules/llama.h"

namespace folio::experiments::by_hand {

/// The part whose backward pass has its common mistake.
enum class Mistake {
  None,
  RmsNorm,       ///< the root mean square taken for a constant: the mean's term is missing
  Rope,          ///< the gradient turned by the angle again, instead of back
  Softmax,       ///< ∂p_i / ∂s_i alone: the other scores' share in the sum below is missing
  SwiGlu,        ///< silu′(z) = σ(z): the product rule's second term is missing
  CrossEntropy,  ///< the sum's gradient for the mean's: not divided by the number of targets
};

/// y = x Wᵀ. x [..., I], weight [O, I], dy [..., O].
struct LinearGradients {
  torch::Tensor x, weight;
};
[[nodiscard]] LinearGradients linear_backward(const torch::Tensor& x, const torch::Tensor& weight,
                                              const torch::Tensor& dy);

/// nn::RMSNorm of x [..., D] with weight [D].
struct NormGradients {
  torch::Tensor x, weight;
};
[[nodiscard]] NormGradients rms_norm_backward(const torch::Tensor& x, const torch::Tensor& weight, double eps,
                                              const torch::Tensor& dy, Mistake mistake = Mistake::None);

/// nn::RopeCache::apply, dy [B, T, H, K], with rotations complex [>= T, K / 2]: the gradient of its input.
[[nodiscard]] torch::Tensor rope_backward(const torch::Tensor& rotations, const torch::Tensor& dy,
                                          Mistake mistake = Mistake::None);

/// p = softmax(s) over the last dimension: the gradient of s. A score that is masked has p = 0, and gradient 0.
[[nodiscard]] torch::Tensor softmax_backward(const torch::Tensor& p, const torch::Tensor& dp,
                                             Mistake mistake = Mistake::None);

/// nn::Attention of x [B, T, D]; weights as in the module.
struct AttentionGradients {
  torch::Tensor x, wq, wk, wv, wo;
};
[[nodiscard]] AttentionGradients attention_backward(nn::AttentionImpl& attention, const torch::Tensor& x,
                                                    const torch::Tensor& dy, Mistake mistake = Mistake::None);

/// nn::SwiGLU of x [..., D]; w1, w3 [F, D] and w2 [D, F].
struct SwiGluGradients {
  torch::Tensor x, w1, w2, w3;
};
[[nodiscard]] SwiGluGradients swiglu_backward(const torch::Tensor& x, const torch::Tensor& w1, const torch::Tensor& w2,
                                              const torch::Tensor& w3, const torch::Tensor& dy,
                                              Mistake mistake = Mistake::None);

/// The mean cross-entropy of `targets` [N] under `logits` [N, V]: the gradient of the logits.
[[nodiscard]] torch::Tensor cross_entropy_backward(const torch::Tensor& logits, const torch::Tensor& targets,
                                                   Mistake mistake = Mistake::None);

/// nn::Llama::loss: the gradients of all parameters, by their names.
[[nodiscard]] std::map<std::string, torch::Tensor> llama_backward(nn::Llama& model, const torch::Tensor& tokens,
                                                                  const torch::Tensor& targets,
                                                                  Mistake mistake = Mistake::None);

// The naive form: the Jacobian J_ij = ∂y_i / ∂x_j of each row as a matrix of its own. dx = Jᵀ dy.

[[nodiscard]] torch::Tensor rms_norm_jacobian(const torch::Tensor& x, const torch::Tensor& weight,
                                              double eps);                  ///< [..., D] to [..., D, D]
[[nodiscard]] torch::Tensor rope_jacobian(const torch::Tensor& rotations);  ///< complex [T, P] to [T, 2P, 2P]
[[nodiscard]] torch::Tensor softmax_jacobian(const torch::Tensor& p);       ///< [..., V] to [..., V, V]
[[nodiscard]] torch::Tensor silu_jacobian(const torch::Tensor& z);          ///< [..., F] to [..., F, F], diagonal

/// Jᵀ dy of each row: jacobian [..., N, M], dy [..., N], to [..., M].
[[nodiscard]] torch::Tensor through(const torch::Tensor& jacobian, const torch::Tensor& dy);

}  // namespace folio::experiments::by_hand
