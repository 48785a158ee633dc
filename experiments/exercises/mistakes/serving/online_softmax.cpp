#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  OldMaximum,
  ValuesOverlap,
  NoMaximum,
  LastBlockOnly,
  OwnMaximum,
  SumNotRescaled,
  WrongWayRound,
  WeightedNotRescaled,
  MaskedIsNaN,
};

template <Wrong kWrong>
void take(Partial& p, const Floats& scores, const Floats& values) {
  using enum Wrong;
  const size_t dim = values.size() / scores.size();
  if (kWrong == LastBlockOnly) p = {};
  p.weighted.resize(dim, 0.0F);
  const float own = *std::max_element(scores.begin(), scores.end());
  const float max = kWrong == NoMaximum ? 0.0F : kWrong == OwnMaximum ? own : std::max(p.max, own);
  if (kWrong != MaskedIsNaN && std::isinf(max)) return;
  const bool first = p.weighted == Floats(dim, 0.0F) && p.sum == 0.0F;
  float factor = first ? (kWrong == MaskedIsNaN ? std::exp(p.max - max) : 1.0F) : std::exp(p.max - max);
  if (kWrong == OwnMaximum) factor = 1.0F;
  if (kWrong == WrongWayRound && !first) factor = 1.0F / factor;
  if (kWrong != SumNotRescaled) p.sum *= factor;
  for (float& number : p.weighted) number *= kWrong == WeightedNotRescaled ? 1.0F : factor;
  const float subtracted = kWrong == OldMaximum ? p.max : max;
  p.max = max;
  for (size_t j = 0; j < scores.size(); ++j) {
    const float weight = std::exp(scores[j] - subtracted);
    p.sum += weight;
    for (size_t d = 0; d < dim; ++d) p.weighted[d] += weight * values[kWrong == ValuesOverlap ? j + d : j * dim + d];
  }
}

const std::vector<Mistake<decltype(take_block)>> kMistakes{
    {"old_maximum", "ABlockIsASoftmax", "the block's own maximum", take<Wrong::OldMaximum>},
    {"values_overlap", "ABlockIsASoftmax", "begins at j * dim", take<Wrong::ValuesOverlap>},
    {"no_maximum", "TheLargestScoreIsSubtracted", "infinite in floats", take<Wrong::NoMaximum>},
    {"last_block_only", "ALowerBlockIsAdded", "is 3, but", take<Wrong::LastBlockOnly>},
    {"own_maximum", "ALowerBlockIsAdded", "is 5, but", take<Wrong::OwnMaximum>},
    {"sum_not_rescaled", "AHigherBlockRescalesBothSums", "is 3, but", take<Wrong::SumNotRescaled>},
    {"wrong_way_round", "AHigherBlockRescalesBothSums", "is 9, but", take<Wrong::WrongWayRound>},
    {"weighted_not_rescaled", "AHigherBlockRescalesBothSums", "is 15, but", take<Wrong::WeightedNotRescaled>},
    {"masked_is_nan", "AMaskedBlockChangesNothing", "exp(-inf - -inf)", take<Wrong::MaskedIsNaN>},
};

}  // namespace

void take_block(Partial& partial, const Floats& scores, const Floats& values) {
  chosen(kMistakes, take<Wrong::None>)(partial, scores, values);
}

}  // namespace folio::exercises
