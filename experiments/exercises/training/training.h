// The functions that the exercises on training ask for, in their order: backward passes by hand, and an optimizer. Each
// is written in a file of its own beside this one, without autograd.
// dy is the gradient of the loss by a part's output y, of y's shape; a result is the gradient by an input, of its
// shape.
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

/// (a, b) to (a cos − b sin, a sin + b cos) for each pair of neighbours. cos, sin [T, K / 2], dy [T, K]. The gradient
/// of x.
Tensor rope_backward(const Tensor& cos, const Tensor& sin, const Tensor& dy);

/// y = p v, with p = softmax(q kᵀ / √K) over the positions up to one's own. All are [T, K].
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

/// The mean over N rows of −ln softmax(logits)[target]. logits [N, V], targets [N] whole numbers. The gradient of
/// logits.
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets);

struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0;
};
/// What AdamW remembers of a parameter.
struct Moments {
  Tensor m, v;        ///< running means of the gradient and of its square, 0 at first
  int64_t steps = 0;  ///< taken so far
};
/// One step: changes w and the moments in place. g is the gradient, of w's shape.
void adamw_step(Tensor& w, const Tensor& g, Moments& moments, const AdamWOptions& options);

}  // namespace folio::exercises
