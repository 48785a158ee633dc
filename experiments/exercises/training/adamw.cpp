// AdamW: one step for one parameter, in plain tensor operations.
//
//     m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g²          running means, initially 0
//     m̂ = m / (1 - beta1^n)                v̂ = v / (1 - beta2^n)                 n = 1 in the first step
//     w = w - lr weight_decay w            w = w - lr m̂ / (sqrt(v̂) + eps)
//
// Change w and the moments in place: w.sub_(…), moments.m.mul_(…), ++moments.steps.
//
// Read first: experiments/10_optimizers/README.md.
// Check it with: make exercise N=adamw
#include <cmath>

#include "experiments/exercises/training/training.h"

namespace folio::exercises {

void adamw_step(Tensor& w, const Tensor& g, Moments& moments, const AdamWOptions& options) {
  throw Unfilled(
      "AdamW is still to be written, in experiments/exercises/training/adamw.cpp.\n"
      "Count the step, update both means, correct them, let w decay, and take the step.");
}

}  // namespace folio::exercises
