#include <cmath>
#include <utility>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {
namespace {

// Switches for the mistakes in an AdamW step. With the default values, the step is correct.
struct Deviations {
  double direction = -1.0;
  bool root = true, corrected = true, counts = true, eps_under_the_root = false, decay_in_the_gradient = false;
  bool betas_swapped = false;
};
using DeviationsOf = Deviations();

Deviations no_deviation() { return {}; }
Deviations goes_uphill() { return {.direction = 1.0}; }
Deviations root_forgotten() { return {.root = false}; }
Deviations no_bias_correction() { return {.corrected = false}; }
Deviations steps_not_counted() { return {.counts = false}; }
Deviations eps_under_the_root() { return {.eps_under_the_root = true}; }
Deviations decay_in_the_gradient() { return {.decay_in_the_gradient = true}; }
Deviations betas_swapped() { return {.betas_swapped = true}; }

const std::vector<Mistake<DeviationsOf>> kAdamWMistakes{
    {"goes_uphill", "AStepGoesAgainstTheGradient", "goes the other way", goes_uphill},
    {"root_forgotten", "TheSizeOfTheGradientDoesNotMatter", "Is the root missing", root_forgotten},
    {"no_bias_correction", "TheFirstStepIsLrInSize", "Without the correction", no_bias_correction},
    {"steps_not_counted", "TheCorrectionFades", "moments.steps has to count", steps_not_counted},
    {"eps_under_the_root", "EpsIsAddedToTheRoot", "not under it", eps_under_the_root},
    {"decay_in_the_gradient", "DecayIsDecoupled", "added to the gradient", decay_in_the_gradient},
    {"betas_swapped", "EqualsLibTorchsForTwentySteps", "both betas in their places", betas_swapped},
};

}  // namespace

void adamw_step(Tensor& w, const Tensor& gradient, Moments& moments, const AdamWOptions& options) {
  const Deviations d = chosen(kAdamWMistakes, no_deviation)();
  double beta1 = options.beta1, beta2 = options.beta2;
  if (d.betas_swapped) std::swap(beta1, beta2);
  const Tensor g = d.decay_in_the_gradient ? gradient + options.weight_decay * w : gradient;
  if (d.counts || moments.steps == 0) ++moments.steps;
  moments.m.mul_(beta1).add_(g * (1 - beta1));
  moments.v.mul_(beta2).add_(g.square() * (1 - beta2));
  const Tensor mean = d.corrected ? moments.m / (1 - std::pow(beta1, moments.steps)) : moments.m;
  const Tensor square = d.corrected ? moments.v / (1 - std::pow(beta2, moments.steps)) : moments.v;
  const Tensor size =
      d.eps_under_the_root ? (square + options.eps).sqrt() : (d.root ? square.sqrt() : square) + options.eps;
  if (!d.decay_in_the_gradient) w.mul_(1 - options.lr * options.weight_decay);
  w.add_(d.direction * options.lr * mean / size);
}

}  // namespace folio::exercises
