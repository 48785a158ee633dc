// Tests of expected_tokens: no draft, one draft, several drafts, and the mean over all outcomes.
#include <cmath>

#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

void expect_tokens(const std::vector<double>& right, double expected, const std::string& why) {
  const double tokens = expected_tokens(right);
  if (std::abs(tokens - expected) < 1e-9) return;
  ADD_FAILURE() << "The expected number of tokens is " << tokens << ", but has to be " << expected << ".\n" << why;
}

TEST(ExpectedTokens, WithoutDraftsOneTokenIsDrawn) {
  expect_tokens({}, 1.0, "A step without drafts is an ordinary step, which draws one token.");
}

TEST(ExpectedTokens, TheDrawnTokenComesFree) {
  expect_tokens({0.0}, 1.0,
                "The draft is always wrong, and the token that was drawn instead of it is kept: the step gives one "
                "token, as without drafts. Only right drafts were counted.");
  expect_tokens({1.0, 1.0, 1.0}, 4.0, "Three right drafts, and the token that is drawn after the last of them.");
}

TEST(ExpectedTokens, ADraftAddsItsProbability) {
  expect_tokens({0.25}, 1.25, "It is right in one step of four, which then gives 2 tokens: (1 + 1 + 1 + 2) / 4.");
}

TEST(ExpectedTokens, ADraftNeedsAllBeforeIt) {
  expect_tokens(
      {0.5, 0.5}, 1.75,
      "The second draft is kept if both are right, with probability 0.5 * 0.5. 2: the drafts were counted "
      "as if each were kept whenever it is right, independent of its position. 1.5: a step is not all or nothing, "
      "the first draft is kept even if the second is wrong.");
}

TEST(ExpectedTokens, EachDraftHasItsOwnProbability) {
  expect_tokens(
      {0.5, 0.8}, 1.9,
      "1 + 0.5 + 0.5 * 0.8. 1.75: the power of the first draft's probability, as if all were equally likely.");
}

TEST(ExpectedTokens, ItIsTheMeanOfAllOutcomes) {
  const std::vector<double> right{0.7, 0.4, 0.9, 0.3, 0.8};
  double mean = 0.0, so_far = 1.0;
  for (size_t n = 0; n <= right.size(); ++n) {  // exactly n drafts are right
    const double next = n < right.size() ? right[n] : 0.0;
    mean += so_far * (1.0 - next) * static_cast<double>(n + 1);
    so_far *= next;
  }
  expect_tokens(right, mean, "The sum over n of the probability of exactly n right drafts, times n + 1.");
}

}  // namespace
}  // namespace folio::exercises
