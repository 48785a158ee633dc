// The mistakes, each with the test that must fail first and words of its message:
//     no_drafts_no_tokens: WithoutDraftsOneTokenIsDrawn: an ordinary step
//     no_free_token: TheDrawnTokenComesFree: Only right drafts
//     of_wrong: ADraftAddsItsProbability: one step of four
//     any_position: ADraftNeedsAllBeforeIt: independent of its position
//     first_only: EachDraftHasItsOwnProbability: power of the first
//     all_or_nothing: ADraftNeedsAllBeforeIt: not all or nothing
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

double expected_tokens(const std::vector<double>& right) {
  if (wrong("no_drafts_no_tokens") && right.empty()) return 0.0;
  double tokens = wrong("no_free_token") && !right.empty() ? 0.0 : 1.0;
  double kept = 1.0;
  for (const double p : right) {
    const double own = wrong("first_only") ? right.front() : wrong("of_wrong") && p > 0.0 && p < 1.0 ? 1.0 - p : p;
    kept = wrong("any_position") ? own : kept * own;
    tokens += wrong("all_or_nothing") ? 0.0 : kept;
  }
  if (wrong("all_or_nothing")) tokens += kept * static_cast<double>(right.size());
  return tokens;
}

}  // namespace folio::exercises
