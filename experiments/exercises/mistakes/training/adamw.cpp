// The mistakes, each with the test that must fail first and words of its message:
//     goes_uphill: AStepGoesAgainstTheGradient: goes the other way
//     not_in_place: TheParameterItselfIsChanged: in place
//     root_forgotten: TheSizeOfTheGradientDoesNotMatter: Is the root missing
//     no_bias_correction: TheFirstStepIsLrInSize: Without the correction
//     steps_not_counted: TheCorrectionFades: moments.steps has to count
//     eps_under_the_root: EpsIsAddedToTheRoot: not under it
//     decay_in_the_gradient: DecayIsDecoupled: added to the gradient
//     betas_swapped: EqualsLibTorchsForTwentySteps: both betas in their places
#include <cmath>
#include <utility>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {

void adamw_step(Tensor& w, const Tensor& gradient, Moments& moments, const AdamWOptions& options) {
  if (wrong("not_in_place")) w = w.clone();
  double beta1 = options.beta1, beta2 = options.beta2;
  if (wrong("betas_swapped")) std::swap(beta1, beta2);
  const Tensor g = wrong("decay_in_the_gradient") ? gradient + options.weight_decay * w : gradient;
  if (!wrong("steps_not_counted") || moments.steps == 0) ++moments.steps;
  moments.m.mul_(beta1).add_(g * (1 - beta1));
  moments.v.mul_(beta2).add_(g.square() * (1 - beta2));
  const bool corrected = !wrong("no_bias_correction");
  const Tensor mean = corrected ? moments.m / (1 - std::pow(beta1, moments.steps)) : moments.m;
  const Tensor square = corrected ? moments.v / (1 - std::pow(beta2, moments.steps)) : moments.v;
  Tensor size = (wrong("root_forgotten") ? square : square.sqrt()) + options.eps;
  if (wrong("eps_under_the_root")) size = (square + options.eps).sqrt();
  if (!wrong("decay_in_the_gradient")) w.mul_(1 - options.lr * options.weight_decay);
  w.add_((wrong("goes_uphill") ? 1.0 : -1.0) * options.lr * mean / size);
}

}  // namespace folio::exercises
