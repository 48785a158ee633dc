// Tests of cross-entropy: the softmax, the target's probability, the mean over positions, and large logits.
#include "experiments/exercises/path/path.h"
#include "experiments/exercises/properties/check.h"

namespace folio::exercises {
namespace {

void expect_loss(const Floats& logits, const std::vector<int32_t>& targets, double expected, const std::string& why) {
  expect_close({static_cast<float>(cross_entropy(logits, targets))}, {static_cast<float>(expected)},
               1e-6 * (1.0 + expected), why);
}

TEST(CrossEntropy, EqualLogitsAreAGuess) {
  expect_loss(
      {0.0F, 0.0F, 0.0F, 0.0F}, {2}, std::log(4.0),
      "Four equal logits are four probabilities of 1/4, and -ln(1/4) is ln 4 = 1.386. -1.386: the minus is missing. "
      "0.25: that is the probability, without the logarithm. 0: that is the logit, without the softmax.");
}

TEST(CrossEntropy, AllLogitsMayMoveTogether) {
  expect_loss(
      {5.0F, 5.0F, 5.0F, 5.0F}, {2}, std::log(4.0),
      "5 was added to every logit, and the probabilities stay. They don't if exp(logit) is divided by the number of "
      "characters instead of by the sum of all exp(logit).");
}

TEST(CrossEntropy, TheTargetsProbabilityCounts) {
  expect_loss(
      {static_cast<float>(std::log(2.0)), 0.0F, 0.0F}, {1}, std::log(4.0),
      "The probabilities are (1/2, 1/4, 1/4), and character 1 came: ln 4. ln 2 = 0.693 belongs to the likeliest one, "
      "which did not come.");
}

TEST(CrossEntropy, PositionsAreAveraged) {
  const auto ln2 = static_cast<float>(std::log(2.0)), ln6 = static_cast<float>(std::log(6.0));
  expect_loss(
      {ln2, 0.0F, 0.0F, 0.0F, ln6, 0.0F}, {0, 0}, std::log(4.0),
      "The first position has p = (1/2, 1/4, 1/4) and the loss ln 2, the second has p = (1/8, 6/8, 1/8) and the "
      "loss ln 8: the mean is 1.386. 2.77 is their sum. 0.693 comes from the first row alone: row t of the logits "
      "begins at t * V.");
}

TEST(CrossEntropy, LargeLogitsStayFinite) {
  expect_loss(
      {1000.0F, 0.0F, 0.0F, 0.0F}, {1, 0}, (1000.0 + std::log(2.0)) / 2.0,
      "exp(1000) is infinite, and infinite / infinite is NaN; exp(-1000) is 0, and its logarithm infinite. Subtract "
      "the largest logit of the position from all of its logits (each position has its own), and write ln p_target as "
      "the difference of the target's logit and the "
      "logarithm of the sum.");
}

}  // namespace
}  // namespace folio::exercises
