#include <cmath>

#include "experiments/exercises/training/training.h"

namespace folio::exercises {

void adamw_step(Tensor& w, const Tensor& g, Moments& moments, const AdamWOptions& options) {
  ++moments.steps;
  moments.m.mul_(options.beta1).add_(g * (1 - options.beta1));
  moments.v.mul_(options.beta2).add_(g.square() * (1 - options.beta2));
  const Tensor mean = moments.m / (1 - std::pow(options.beta1, moments.steps));
  const Tensor mean_square = moments.v / (1 - std::pow(options.beta2, moments.steps));
  w.mul_(1 - options.lr * options.weight_decay);
  w.sub_(options.lr * mean / (mean_square.sqrt() + options.eps));
}

}  // namespace folio::exercises
