#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {
namespace {

using Norm = Tensor(const RMSNormImpl& norm, const Tensor& x);

Tensor mean_square(const Tensor& x) { return x.square().mean(-1, true); }

Tensor sound_norm(const RMSNormImpl& norm, const Tensor& x) {
  return x * torch::rsqrt(mean_square(x) + norm.eps) * norm.weight;
}

Tensor layer_norm(const RMSNormImpl& norm, const Tensor& x) { return sound_norm(norm, x - x.mean(-1, true)); }

Tensor mean_instead_of_mean_square(const RMSNormImpl& norm, const Tensor& x) {
  return x / torch::sqrt(x.mean(-1, true) + norm.eps) * norm.weight;
}

Tensor no_root(const RMSNormImpl& norm, const Tensor& x) { return x / (mean_square(x) + norm.eps) * norm.weight; }

Tensor sum_instead_of_mean(const RMSNormImpl& norm, const Tensor& x) {
  return x * torch::rsqrt(x.square().sum(-1, true) + norm.eps) * norm.weight;
}

Tensor no_eps(const RMSNormImpl& norm, const Tensor& x) { return x * torch::rsqrt(mean_square(x)) * norm.weight; }

Tensor mean_over_positions(const RMSNormImpl& norm, const Tensor& x) {
  return x * torch::rsqrt(x.square().mean({-2, -1}, true) + norm.eps) * norm.weight;
}

Tensor no_weight(const RMSNormImpl& norm, const Tensor& x) { return x * torch::rsqrt(mean_square(x) + norm.eps); }

Tensor size_without_gradient(const RMSNormImpl& norm, const Tensor& x) {
  return x * torch::rsqrt(mean_square(x).detach() + norm.eps) * norm.weight;
}

const std::vector<Mistake<Norm>> kNormMistakes{
    {"layer_norm", "NothingIsSubtracted", "LayerNorm subtracts", layer_norm},
    {"mean_instead_of_mean_square", "TheSquaresAreAveraged", "instead of the mean of their squares",
     mean_instead_of_mean_square},
    {"no_root", "ResultDoesNotDependOnTheScale", "square root is missing", no_root},
    {"sum_instead_of_mean", "TheMeanIsTakenAndNotTheSum", "divide it by dim", sum_instead_of_mean},
    {"no_eps", "WeightIsOneAtFirstAndEpsKeepsZerosFinite", "0 was divided by 0", no_eps},
    {"mean_over_positions", "APositionDependsOnItselfAlone", "never over positions", mean_over_positions},
    {"no_weight", "EqualsTheFormula", "Is the weight there", no_weight},
    {"size_without_gradient", "GradientsEqualCentralDifferences", "taken out of the graph", size_without_gradient},
};

}  // namespace

Tensor RMSNormImpl::forward(const Tensor& x) { return chosen(kNormMistakes, sound_norm)(*this, x); }

}  // namespace folio::exercises
