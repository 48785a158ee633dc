// Tests of the average as a loop, by weights, by a softmax and by attention; each is compared with the one before it.
#include "experiments/exercises/path/path.h"
#include "experiments/exercises/properties/check.h"

namespace folio::exercises {
namespace {

constexpr double kRoundings = 1e-6;  // tolerance: a few rounding errors of values below 10

TEST(Averages, ALoopAveragesWhatCameSoFar) {
  expect_close(
      average_by_loop({2.0F, 4.0F, 9.0F}, 3, 1), {2.0F, 3.0F, 5.0F}, kRoundings,
      "The means of (2), (2, 4) and (2, 4, 9). 2, 6, 15 are the sums. 5, 5, 5 is the mean of all three, in which a "
      "position sees what comes later. Infinite or 6, 7.5: divided by t, but the rows 0 to t are t + 1.");
}

TEST(Averages, EachColumnIsByItself) {
  expect_close(average_by_loop({1.0F, 10.0F, 3.0F, 30.0F}, 2, 2), {1.0F, 10.0F, 2.0F, 20.0F}, kRoundings,
               "Two rows of two numbers: a mean is over rows, and row s begins at s * D.");
}

TEST(Averages, ARowOfWeightsHasEqualShares) {
  expect_close(
      average_weights(3), {1.0F, 0.0F, 0.0F, 0.5F, 0.5F, 0.0F, 1.0F / 3, 1.0F / 3, 1.0F / 3}, kRoundings,
      "The rows are (1, 0, 0), (1/2, 1/2, 0) and (1/3, 1/3, 1/3). 0 in the second row: in C++ the quotient of whole "
      "numbers is a whole number, and 1 / (t + 1) is 0; write 1.0F / (t + 1). Numbers above the diagonal: rows and "
      "columns are exchanged.");
}

TEST(Averages, EqualScoresGiveEqualWeights) {
  expect_close(
      causal_softmax(Floats(9, 0.0F), 3), {1.0F, 0.0F, 0.0F, 0.5F, 0.5F, 0.0F, 1.0F / 3, 1.0F / 3, 1.0F / 3},
      kRoundings,
      "Nine scores of 0: row t shares its weight among the positions 0 to t. 1/3 everywhere: the future is not "
      "masked. 1/3, 0, 0 in the first row: it was masked after the softmax, so the row does not sum to 1.");
}

TEST(Averages, AHigherScoreGetsMoreWeight) {
  const auto ln3 = static_cast<float>(std::log(3.0));
  expect_close(
      causal_softmax({0.0F, 9.0F, 0.0F, ln3}, 2), {1.0F, 0.0F, 0.25F, 0.75F}, kRoundings,
      "The scores (0, ln 3) are e^0 = 1 and e^ln 3 = 3, together 4: the weights are 1/4 and 3/4. 0 and 1 are shares "
      "of the scores themselves, without exp.");
}

TEST(Averages, LargeScoresStayFinite) {
  expect_close(causal_softmax({500.0F, 1000.0F, 500.0F, 500.0F}, 2), {1.0F, 0.0F, 0.5F, 0.5F}, kRoundings,
               "exp(500) is infinite in floats, and infinite / infinite is NaN. Subtract the largest score that row t "
               "sees from those it sees first: the weights stay the same. 1000 is masked in row 0: exp(500 - 1000) is "
               "0, and 0 / 0 is NaN.");
}

TEST(Averages, QueriesOfZeroGiveTheAverage) {
  expect_close(
      attend(Floats(6, 0.0F), {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2.0F, 4.0F, 9.0F}, 3, 2), {2.0F, 3.0F, 5.0F},
      kRoundings,
      "With queries of 0 all scores are 0, so this is the average of the values 2, 4, 9 so far. 1, 2, 3 would be the "
      "average of the keys: keys make the weights, and what is added up are the values.");
}

TEST(Averages, AScoreIsADotProductOverTheRootOfItsWidth) {
  // Query 1 is (1, 1, 1, 1). Its dot products with the keys are 0 and 2 ln 3, so its scores are 0 and ln 3.
  const auto ln3 = static_cast<float>(std::log(3.0));
  const Floats y = attend({0, 0, 0, 0, 1, 1, 1, 1}, {1, -1, 1, -1, ln3, ln3, 0, 0}, {0.0F, 1.0F}, 2, 4);
  expect_close(
      {y[1]}, {0.75F}, kRoundings,
      "The scores are 0 and 2 ln 3 / sqrt(4) = ln 3, so the second value, 1, has the weight 3/4. 0.9 comes without "
      "the root. It is also what sqrt(D) gives, with D = 1 number in a value: K is the width of a query. 0.634 is a "
      "division by K itself. 0.25: the query of one position was taken for the key.");
}

}  // namespace
}  // namespace folio::exercises
