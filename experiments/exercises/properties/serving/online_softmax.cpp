// Tests of take_block: one block, blocks with and without a new maximum, masked blocks, and any division into blocks.
#include <limits>

#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
const auto kLn4 = static_cast<float>(std::log(4.0));

Floats result(const Partial& p) {
  Floats y = p.weighted;
  for (float& number : y) number /= p.sum;
  return y;
}

TEST(OnlineSoftmax, ABlockIsASoftmax) {
  Partial p;
  take_block(p, {0.0F, 0.0F}, {2.0F, 20.0F, 4.0F, 40.0F});
  expect_close({p.max, p.sum}, {0.0F, 2.0F}, 1e-6,
               "max and sum of the scores 0 and 0. A sum that is infinite or NaN: exp(s - max) has to use the block's "
               "own maximum.");
  expect_close(p.weighted, {6.0F, 60.0F}, 1e-5,
               "Two weights of 1, and the values (2, 20) and (4, 40). Value j begins at j * dim.");
}

TEST(OnlineSoftmax, TheLargestScoreIsSubtracted) {
  Partial p;
  take_block(p, {500.0F, 500.0F}, {2.0F, 4.0F});
  expect_close(result(p), {3.0F}, 1e-5,
               "exp(500) is infinite in floats. Each exponent is the score minus the largest so far.");
}

TEST(OnlineSoftmax, ALowerBlockIsAdded) {
  Partial p;
  take_block(p, {kLn4}, {9.0F});
  take_block(p, {0.0F, 0.0F}, {2.0F, 4.0F});
  expect_close(result(p), {7.0F}, 1e-5,
               "Scores ln 4, 0, 0: the weights 4, 1, 1 of 6, and 42 / 6 = 7. 3 is the second block alone. 5: the "
               "second block took "
               "its own maximum, 0, instead of the larger one of before.");
}

TEST(OnlineSoftmax, AHigherBlockRescalesBothSums) {
  Partial p;
  take_block(p, {0.0F, 0.0F}, {2.0F, 4.0F});
  take_block(p, {kLn4}, {9.0F});
  expect_close({p.sum}, {1.5F}, 1e-5,
               "This is the sum. It was 2 with max = 0; with max = ln 4 it is 2 / 4, and then 1 is added. 3: the old "
               "sum was not "
               "brought to the new maximum. 9: it was multiplied by exp(new - old), the wrong way round.");
  expect_close(p.weighted, {10.5F}, 1e-5,
               "This is the weighted sum: 6 / 4 + 9. 15 keeps the 6: both sums have to be brought to the new maximum.");
}

TEST(OnlineSoftmax, AMaskedBlockChangesNothing) {
  Partial p;
  take_block(p, {kMasked, kMasked}, {1.0F, 1.0F});
  expect_close(
      {p.sum}, {0.0F}, 0.0,
      "Nothing but masked scores: no weight. NaN comes from exp(-inf - -inf), where the maximum is still -infinity: "
      "leave such a block out.");
  take_block(p, {0.0F, kMasked, 0.0F}, {2.0F, 100.0F, 4.0F});
  expect_close(result(p), {3.0F}, 1e-5, "A block that comes after it counts as if it were the first one.");
}

TEST(OnlineSoftmax, AnyCutGivesTheSame) {
  constexpr size_t kScores = 24, kDim = 3;
  Floats scores = random_floats(kScores, 1);
  for (float& s : scores) s *= 8.0F;
  const Floats values = random_floats(kScores * kDim, 2);
  Partial whole;
  take_block(whole, scores, values);
  for (const size_t block : {1, 2, 3, 8, 12}) {
    Partial p;
    for (size_t j = 0; j < kScores; j += block) {
      take_block(p, {scores.begin() + j, scores.begin() + j + block},
                 {values.begin() + j * kDim, values.begin() + (j + block) * kDim});
    }
    // Tolerance: each of at most 24 blocks rescales the sums by a factor with an error below 16 * 2^-24.
    expect_close(result(p), result(whole), 24.0 * 16.0 * 0x1p-24,
                 "24 scores in blocks of " + std::to_string(block) + ".");
  }
}

}  // namespace
}  // namespace folio::exercises
