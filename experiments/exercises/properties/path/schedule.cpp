// Tests of the learning rate (warm-up, then cosine) and of gradient clipping.
#include "experiments/exercises/path/path.h"
#include "experiments/exercises/properties/check.h"

namespace folio::exercises {
namespace {

const Schedule kExample{.rate = 8.0, .last_rate = 2.0, .warmup = 4, .steps = 104};

void expect_rate(size_t step, double expected, const std::string& why) {
  expect_close({static_cast<float>(learning_rate(kExample, step))}, {static_cast<float>(expected)}, 1e-6,
               "This is the rate of step " + std::to_string(step) + ". " + why);
}

TEST(ScheduleAndClip, TheWarmupIsALine) {
  expect_rate(
      0, 2.0,
      "The warm-up has 4 steps: 2, 4, 6, 8. 0 is what step / warmup gives, and also (step + 1) / warmup in whole "
      "numbers, whose quotient is a whole number in C++: make them double first. 8: there is no warm-up.");
  expect_rate(2, 6.0, "The warm-up has 4 steps: 2, 4, 6, 8.");
}

TEST(ScheduleAndClip, TheCosineBeginsAtTheHighestRate) {
  expect_rate(
      4, 8.0,
      "Behind the warm-up done = (step - warmup) / (steps - warmup) is 0, and cos(0) is 1. If it is a little less "
      "than 8, the steps of the warm-up were counted.");
}

TEST(ScheduleAndClip, HalfWayTheRateIsInTheMiddle) {
  expect_rate(
      54, 5.0,
      "Step 54 is in the middle of the cosine, where it is 0: halfway between 8 and 2. 4: half of the highest rate, "
      "without last_rate. 8: done is a quotient of whole numbers, which is 0 until the end.");
}

TEST(ScheduleAndClip, TheCosineIsRound) {
  expect_rate(29, 2.0 + 6.0 * (1.0 + std::sqrt(0.5)) / 2.0,
              "A quarter of the way the cosine is still high, 0.707. 6.5 is a straight line.");
}

TEST(ScheduleAndClip, ShortGradientsStay) {
  Floats g{0.3F, -0.4F};
  clip(g, 1.0F);
  expect_close(g, {0.3F, -0.4F}, 0.0,
               "Their length is 0.5, below the limit of 1: nothing changes. It is a limit and no goal.");
}

TEST(ScheduleAndClip, LongGradientsGetTheLimit) {
  Floats g{3.0F, -4.0F};
  clip(g, 2.5F);
  expect_close(
      g, {1.5F, -2.0F}, 1e-6,
      "The length of (3, -4) is the root of 9 + 16, so 5, and the limit 2.5 is half of it. 2.5 and -2.5: each number "
      "was "
      "cut by itself, which changes the direction. 0.3 and -0.4: the root is missing. 0.6 and -0.8: brought to the "
      "length 1 instead of the limit.");
}

}  // namespace
}  // namespace folio::exercises
