// The functions of the training exercises, in their order: backward passes by hand, and an optimizer, without autograd.
// Each is written in its own file in this folder.
// dy is the gradient of the loss with respect to the output y, of y's shape; results are gradients with respect to
// inputs, of their shapes.
#pragma once

#include <torch/types.h>

#include "experiments/exercises/unfilled.h"

namespace folio::exercises {

using torch::Tensor;

/// y = x / sqrt(mean of x² + eps) · weight, with the mean over the last dimension. x, dy [N, D], weight [D].
struct NormGradients {
  Tensor x, weight;
};
NormGradients rms_norm_backward(const Tensor& x, const Tensor& weight, double eps, const Tensor& dy);

/// Rotates each adjacent pair (a, b) to (a cos − b sin, a sin + b cos). cos, sin [T, K / 2], dy [T, K]. Returns the
/// gradient of x.
Tensor rope_backward(const Tensor& cos, const Tensor& sin, const Tensor& dy);

/// y = p v with p = softmax(q kᵀ / √K), causal: a query attends to positions up to its own. q, k, v, dy [T, K].
struct HeadGradients {
  Tensor q, k, v;
};
HeadGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy);

/// y = (silu(x w1ᵀ) · x w3ᵀ) w2ᵀ. x, dy [N, D], w1, w3 [F, D], w2 [D, F].
struct SwigluGradients {
  Tensor x, w1, w2, w3;
};
SwigluGradients swiglu_backward(const Tensor& x, const Tensor& w1, const Tensor& w2, const Tensor& w3,
                                const Tensor& dy);

/// The loss is the mean over N rows of −ln softmax(logits)[target]. logits [N, V], targets [N] integers. Returns the
/// gradient of logits.
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets);

struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0;
};
/// AdamW's state for a parameter.
struct Moments {
  Tensor m, v;        ///< running means of the gradient and of its square, initially 0
  int64_t steps = 0;  ///< number of steps taken
};
/// Takes one step: updates w and the moments in place. g is the gradient, of w's shape.
void adamw_step(Tensor& w, const Tensor& g, Moments& moments, const AdamWOptions& options);

}  // namespace folio::exercises
