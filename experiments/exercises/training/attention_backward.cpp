// The backward pass of an attention head, by hand.
//
//     forward   s = q kᵀ / sqrt(K), masked above the diagonal     p = softmax of each row of s     y = p v
//     find      the gradients of q, k and v, from dy
//
// Work backward: dp and dv from y = p v, then ds from the softmax, then dq and dk from s. For a row of the softmax,
// ∂p_i/∂s_j = p_i ([i = j] - p_j).
//
// Read first: experiments/11_gradients/README.md.
// Check it with: make exercise N=attention_backward
#include "experiments/exercises/training/training.h"

namespace folio::exercises {

HeadGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy) {
  throw Unfilled(
      "The way back through attention is still to be written, in "
      "experiments/exercises/training/attention_backward.cpp.\n"
      "Compute p again, as forwards. Then dv = pᵀ dy and dp = dy vᵀ; ds by the softmax's rule; dq and dk from ds.\n"
      "Return {dq, dk, dv}.");
}

}  // namespace folio::exercises
