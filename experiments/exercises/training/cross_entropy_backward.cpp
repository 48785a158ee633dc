// The backward pass of the cross-entropy loss, by hand.
//
//     forward   L = (1/N) Σ over rows of -ln p[target],  p = softmax(logits)
//     find      ∂L/∂logits
//
// On paper, the derivatives of the logarithm and the softmax combine to a difference: prediction minus target. Useful:
// torch::one_hot and logits.softmax(-1). A softmax of your own must not overflow for logits of 1000.
//
// Read first: experiments/11_gradients/README.md.
// Check it with: make exercise N=cross_entropy_backward
#include "experiments/exercises/training/training.h"

namespace folio::exercises {

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets) {
  throw Unfilled(
      "The way back through the loss is still to be written, in "
      "experiments/exercises/training/cross_entropy_backward.cpp.\n"
      "For one row: ln p[target] = logit[target] - ln Σ e^logit. Differentiate that by each logit.");
}

}  // namespace folio::exercises
