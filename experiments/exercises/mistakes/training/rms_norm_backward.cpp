// The mistakes, each with the test that must fail first and words of its message:
//     mean_over_rows: TheWeightsGradientIsASumOverRows: not their mean
//     r_taken_for_a_constant: TheRootMeanSquareIsNoConstant: taken for a constant
//     weight_forgotten: EqualsAutograd: a factor
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {

NormGradients rms_norm_backward(const Tensor& x, const Tensor& weight, double eps, const Tensor& dy) {
  const Tensor r = torch::rsqrt(x.square().mean(-1, true) + eps), normed = x * r;
  const Tensor g = wrong("weight_forgotten") ? dy : dy * weight;
  const Tensor dx = r * (wrong("r_taken_for_a_constant") ? g : g - normed * (g * normed).mean(-1, true));
  return {dx, wrong("mean_over_rows") ? (dy * normed).mean(0) : (dy * normed).sum(0)};
}

}  // namespace folio::exercises
