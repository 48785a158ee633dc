// The mistakes, each with the test that must fail first and words of its message:
//     layer_norm: NothingIsSubtracted: LayerNorm subtracts
//     mean_instead_of_mean_square: TheSquaresAreAveraged: instead of the mean of their squares
//     no_root: ResultDoesNotDependOnTheScale: square root is missing
//     sum_instead_of_mean: TheMeanIsTakenAndNotTheSum: divide it by dim
//     no_eps: WeightIsOneAtFirstAndEpsKeepsZerosFinite: 0 was divided by 0
//     mean_over_positions: APositionDependsOnItselfAlone: never over positions
//     no_weight: EqualsTheFormula: Is the weight there
//     size_without_gradient: GradientsEqualCentralDifferences: taken out of the graph
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor RMSNormImpl::forward(const Tensor& input) {
  const Tensor x = wrong("layer_norm") ? input - input.mean(-1, true) : input;
  Tensor mean = x.square().mean(-1, true);
  if (wrong("mean_instead_of_mean_square")) mean = x.mean(-1, true);
  if (wrong("sum_instead_of_mean")) mean = x.square().sum(-1, true);
  if (wrong("mean_over_positions")) mean = x.square().mean({-2, -1}, true);
  if (wrong("size_without_gradient")) mean = mean.detach();
  if (!wrong("no_eps")) mean = mean + eps;
  const Tensor y = wrong("no_root") ? x / mean : x * torch::rsqrt(mean);
  return wrong("no_weight") ? y : y * weight;
}

}  // namespace folio::exercises
