#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {
namespace {

using NormBackward = NormGradients(const Tensor& x, const Tensor& weight, double eps, const Tensor& dy);

Tensor inverse_size(const Tensor& x, double eps) { return torch::rsqrt(x.square().mean(-1, true) + eps); }

NormGradients sound_norm_backward(const Tensor& x, const Tensor& weight, double eps, const Tensor& dy) {
  const Tensor r = inverse_size(x, eps), normed = x * r, g = dy * weight;
  return {r * (g - normed * (g * normed).mean(-1, true)), (dy * normed).sum(0)};
}

NormGradients mean_over_rows(const Tensor& x, const Tensor& weight, double eps, const Tensor& dy) {
  const auto d = sound_norm_backward(x, weight, eps, dy);
  return {d.x, d.weight / x.size(0)};
}

NormGradients r_taken_for_a_constant(const Tensor& x, const Tensor& weight, double eps, const Tensor& dy) {
  return {dy * weight * inverse_size(x, eps), sound_norm_backward(x, weight, eps, dy).weight};
}

NormGradients weight_forgotten(const Tensor& x, const Tensor& weight, double eps, const Tensor& dy) {
  return sound_norm_backward(x, torch::ones_like(weight), eps, dy);
}

const std::vector<Mistake<NormBackward>> kNormBackwardMistakes{
    {"mean_over_rows", "TheWeightsGradientIsASumOverRows", "not their mean", mean_over_rows},
    {"r_taken_for_a_constant", "TheRootMeanSquareIsNoConstant", "taken for a constant", r_taken_for_a_constant},
    {"weight_forgotten", "EqualsAutograd", "a factor", weight_forgotten},
};

}  // namespace

NormGradients rms_norm_backward(const Tensor& x, const Tensor& weight, double eps, const Tensor& dy) {
  return chosen(kNormBackwardMistakes, sound_norm_backward)(x, weight, eps, dy);
}

}  // namespace folio::exercises
