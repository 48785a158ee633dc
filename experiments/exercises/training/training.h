// Declares the functions that the reader writes in the training exercises, each in its own file in this folder:
// backward passes by hand and an optimizer, without autograd.
// dy is the gradient of the loss with respect to the output y. Backward passes return the gradients with respect to
// the inputs of the forward pass. Each gradient has the shape of its tensor.
#pragma once

#include <torch/types.h>

#include "experiments/exercises/unfilled.h"

namespace folio::exercises {

using torch::Tensor;

/// Gradients with respect to the inputs of RMSNorm, y = x / sqrt(mean of x² over the row + eps) · weight. x and dy are
/// [N, D], weight is [D].
struct NormGradients {
  Tensor x, weight;
};
NormGradients rms_norm_backward(const Tensor& x, const Tensor& weight, double eps, const Tensor& dy);

/// Returns the gradient of the loss with respect to the input of RoPE, which rotates adjacent pairs (a, b) to
/// (a cos − b sin, a sin + b cos). cos, sin [T, K / 2], dy [T, K].
Tensor rope_backward(const Tensor& cos, const Tensor& sin, const Tensor& dy);

/// Gradients with respect to the inputs of causal attention, y = p v with p = softmax(q kᵀ / √K). q, k, v, dy [T, K].
struct HeadGradients {
  Tensor q, k, v;
};
HeadGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy);

/// Gradients with respect to the inputs of SwiGLU, y = (silu(x w1ᵀ) · x w3ᵀ) w2ᵀ. x, dy [N, D], w1, w3 [F, D],
/// w2 [D, F].
struct SwigluGradients {
  Tensor x, w1, w2, w3;
};
SwigluGradients swiglu_backward(const Tensor& x, const Tensor& w1, const Tensor& w2, const Tensor& w3,
                                const Tensor& dy);

/// Returns the gradient of the loss with respect to the logits [N, V]. The loss is the mean over N rows of
/// −ln softmax(logits)[target]. targets [N] are integers.
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets);

struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0;
};
/// The optimizer state of AdamW for one parameter.
struct Moments {
  Tensor m, v;        ///< running means of the gradient and of its square, initially 0
  int64_t steps = 0;  ///< number of steps taken
};
/// Takes one AdamW step: updates w and the moments in place. g is the gradient of w, of the same shape.
void adamw_step(Tensor& w, const Tensor& g, Moments& moments, const AdamWOptions& options);

}  // namespace folio::exercises
