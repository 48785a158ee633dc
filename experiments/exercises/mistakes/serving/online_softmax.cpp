// The mistakes, each with the test that must fail first and words of its message:
//     old_maximum: ABlockIsASoftmax: the block's own maximum
//     values_overlap: ABlockIsASoftmax: begins at j * dim
//     no_maximum: TheLargestScoreIsSubtracted: infinite in floats
//     last_block_only: ALowerBlockIsAdded: is 3, but
//     own_maximum: ALowerBlockIsAdded: is 5, but
//     sum_not_rescaled: AHigherBlockRescalesBothSums: is 3, but
//     wrong_way_round: AHigherBlockRescalesBothSums: is 9, but
//     weighted_not_rescaled: AHigherBlockRescalesBothSums: is 15, but
//     masked_is_nan: AMaskedBlockChangesNothing: exp(-inf - -inf)
#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

void take_block(Partial& p, const Floats& scores, const Floats& values) {
  const size_t dim = values.size() / scores.size();
  if (wrong("last_block_only")) p = {};
  p.weighted.resize(dim, 0.0F);
  const float own = *std::max_element(scores.begin(), scores.end());
  const float max = wrong("no_maximum") ? 0.0F : wrong("own_maximum") ? own : std::max(p.max, own);
  if (!wrong("masked_is_nan") && std::isinf(max)) return;
  const bool first = p.weighted == Floats(dim, 0.0F) && p.sum == 0.0F;
  float factor = first ? (wrong("masked_is_nan") ? std::exp(p.max - max) : 1.0F) : std::exp(p.max - max);
  if (wrong("own_maximum")) factor = 1.0F;
  if (wrong("wrong_way_round") && !first) factor = 1.0F / factor;
  if (!wrong("sum_not_rescaled")) p.sum *= factor;
  for (float& number : p.weighted) number *= wrong("weighted_not_rescaled") ? 1.0F : factor;
  const float subtracted = wrong("old_maximum") ? p.max : max;
  p.max = max;
  for (size_t j = 0; j < scores.size(); ++j) {
    const float weight = std::exp(scores[j] - subtracted);
    p.sum += weight;
    for (size_t d = 0; d < dim; ++d) p.weighted[d] += weight * values[wrong("values_overlap") ? j + d : j * dim + d];
  }
}

}  // namespace folio::exercises
