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

void expect_rates(const TrainConfig& c, int64_t first, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto step = first + static_cast<int64_t>(i);
    EXPECT_NEAR(learning_rate(c, step), expected[i], 1e-15) << name_of(c.schedule) << ", step " << step;
  }
}

// Values are calculated by hand.
TEST(Schedule, WarmsUpThenDecays) {
  TrainConfig c = factors();
  // k steps after the warm-up, the rate is 0.2 + 0.4 (1 + cos(k pi / 8)), or 1 - 0.1 k.
  expect_rates(c, 0, {0.25, 0.5, 0.75, 1.0, 1.0, 0.96955181300451469, 0.88284271247461903, 0.75307337294603591, 0.6});
  expect_rates(c, 9, {0.44692662705396413, 0.31715728752538097, 0.23044818699548535, 0.2, 0.2});
  c.schedule = ScheduleKind::Linear;
  expect_rates(c, 0, {0.25, 0.5, 0.75, 1.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2});
  c.schedule = ScheduleKind::Constant;
  expect_rates(c, 0, {0.25, 0.5, 0.75, 1.0, 1.0});
  expect_rates(c, 1000, {1.0});
}

TEST(Schedule, WsdDecaysByOneMinusSqrt) {
  TrainConfig c = factors();
  c.schedule = ScheduleKind::Wsd;
  c.decay_fraction = 1.0;  // the decay begins after the warm-up, and is 0.2 + 0.8 (1 - sqrt(1 / 4)) after a quarter
  expect_rates(c, 3, {1.0});
  expect_rates(c, 6, {0.6});
  c.decay_fraction = 0.0;
  expect_rates(c, 11, {1.0});
  c.steps = 20;
  c.decay_fraction = 0.2;
  expect_rates(c, 3, std::vector<double>(14, 1.0));
  // In step k = 1 to 4 of the decay, the rate is 0.2 + 0.8 (1 - sqrt(k / 4)). Afterwards, it stays at 0.2.
  expect_rates(c, 17, {0.6, 0.43431457505076194, 0.30717967697244910, 0.2, 0.2});
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

TEST(Schedule, WarmUpMayBeMissingOrLastTheWholeRun) {
  TrainConfig c = factors();
  c.warmup_steps = 0;
  expect_rates(c, 0, {1.0});
  expect_rates(c, 6, {0.6});
  c.warmup_steps = 12;
  expect_rates(c, 11, {1.0});
}

}  // namespace
}  // namespace folio::train
