#include "train/step/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace folio::train {
namespace {

// Returns a schedule with lr 1 and min_lr 0.2: 4 warm-up steps, then a decay along half a cosine in 8 steps.
TrainConfig factors() {
  TrainConfig c;
  c.lr = 1.0;
  c.min_lr = 0.2;
  c.warmup_steps = 4;
  c.steps = 12;
  return c;
}

TEST(Schedule, WarmsUpThenDecaysByCosine) {
  // k steps after the warm-up, the rate is 0.2 + 0.4 (1 + cos(k pi / 8)). Values are calculated by hand.
  const std::vector<double> expected{0.25,
                                     0.5,
                                     0.75,
                                     1.0,
                                     1.0,
                                     0.96955181300451469,
                                     0.88284271247461903,
                                     0.75307337294603591,
                                     0.6,
                                     0.44692662705396413,
                                     0.31715728752538097,
                                     0.23044818699548535,
                                     0.2,
                                     0.2};
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(learning_rate(factors(), static_cast<int64_t>(step)), expected[step], 1e-15) << "step " << step;
  }
}

TEST(Schedule, ConstantOnlyWarmsUp) {
  TrainConfig c = factors();
  c.schedule = ScheduleKind::Constant;
  EXPECT_DOUBLE_EQ(learning_rate(c, 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(c, 3), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 11), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 1000), 1.0);
}

TEST(Schedule, LinearDecaysLinearly) {
  TrainConfig c = factors();
  c.schedule = ScheduleKind::Linear;
  const std::vector<double> expected{0.25, 0.5, 0.75, 1.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2};
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(learning_rate(c, static_cast<int64_t>(step)), expected[step], 1e-15) << "step " << step;
  }
}

TEST(Schedule, WsdDecaysByOneMinusSqrt) {
  TrainConfig c = factors();
  c.schedule = ScheduleKind::Wsd;
  c.steps = 20;
  c.decay_fraction = 0.2;
  for (int64_t step = 3; step <= 16; ++step) EXPECT_DOUBLE_EQ(learning_rate(c, step), 1.0) << "step " << step;
  // In step k = 1 to 4 of the decay, the rate is 0.2 + 0.8 (1 - sqrt(k / 4)). Afterwards, it stays at 0.2.
  const std::vector<double> expected{0.6, 0.43431457505076194, 0.30717967697244910, 0.2, 0.2};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(learning_rate(c, 17 + static_cast<int64_t>(i)), expected[i], 1e-15) << "step " << 17 + i;
  }
}

TEST(Schedule, WsdDecayBeginsAfterTheWarmUp) {
  TrainConfig c = factors();
  c.schedule = ScheduleKind::Wsd;
  c.decay_fraction = 1.0;
  EXPECT_DOUBLE_EQ(learning_rate(c, 3), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 6), 0.6);  // after a quarter of the decay: 0.2 + 0.8 (1 - sqrt(1 / 4))
}

TEST(Schedule, WsdWithoutADecayIsConstant) {
  TrainConfig c = factors();
  c.schedule = ScheduleKind::Wsd;
  c.decay_fraction = 0.0;
  EXPECT_DOUBLE_EQ(learning_rate(c, 11), 1.0);
}

// With --minutes, the number of steps is set only after the first steps, whose rates must not depend on it.
TEST(Schedule, WarmUpDoesNotDependOnTheNumberOfSteps) {
  for (const auto schedule : {ScheduleKind::Cosine, ScheduleKind::Linear, ScheduleKind::Wsd, ScheduleKind::Constant}) {
    TrainConfig c = factors();
    c.schedule = schedule;
    TrainConfig longer = c;
    longer.steps = 1000;
    for (int64_t step = 0; step < c.warmup_steps; ++step) {
      EXPECT_EQ(learning_rate(c, step), learning_rate(longer, step)) << name_of(schedule) << ", step " << step;
    }
  }
}

TEST(Schedule, WithoutWarmUpTheFirstStepHasTheFullRate) {
  TrainConfig c = factors();
  c.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate(c, 0), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 6), 0.6);
}

TEST(Schedule, WarmUpMayLastTheWholeRun) {
  TrainConfig c = factors();
  c.warmup_steps = 12;
  EXPECT_DOUBLE_EQ(learning_rate(c, 11), 1.0);
}

}  // namespace
}  // namespace folio::train
