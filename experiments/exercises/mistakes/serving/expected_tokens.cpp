#include <algorithm>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class WrongMean { None, NoDraftsNoTokens, NoFreeToken, OfWrong, AnyPosition, FirstOnly, AllOrNothing };

template <WrongMean kWrong>
double counted(const std::vector<double>& right) {
  using enum WrongMean;
  if (kWrong == NoDraftsNoTokens && right.empty()) return 0.0;
  double tokens = kWrong == NoFreeToken && !right.empty() ? 0.0 : 1.0;
  double kept = 1.0;
  for (const double p : right) {
    const double own = kWrong == FirstOnly ? right.front() : kWrong == OfWrong && p > 0.0 && p < 1.0 ? 1.0 - p : p;
    kept = kWrong == AnyPosition ? own : kept * own;
    tokens += kWrong == AllOrNothing ? 0.0 : kept;
  }
  if (kWrong == AllOrNothing) tokens += kept * static_cast<double>(right.size());
  return tokens;
}

const std::vector<Mistake<decltype(expected_tokens)>> kMistakes{
    {"no_drafts_no_tokens", "WithoutDraftsOneTokenIsDrawn", "an ordinary step", counted<WrongMean::NoDraftsNoTokens>},
    {"no_free_token", "TheDrawnTokenComesFree", "Only right drafts", counted<WrongMean::NoFreeToken>},
    {"of_wrong", "ADraftAddsItsProbability", "one step of four", counted<WrongMean::OfWrong>},
    {"any_position", "ADraftNeedsAllBeforeIt", "independent of its position", counted<WrongMean::AnyPosition>},
    {"first_only", "EachDraftHasItsOwnProbability", "power of the first", counted<WrongMean::FirstOnly>},
    {"all_or_nothing", "ADraftNeedsAllBeforeIt", "not all or nothing", counted<WrongMean::AllOrNothing>},
};

}  // namespace

double expected_tokens(const std::vector<double>& right) { return chosen(kMistakes, counted<WrongMean::None>)(right); }

}  // namespace folio::exercises
