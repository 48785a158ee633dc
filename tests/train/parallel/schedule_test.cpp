// Tests pipeline schedules: every action occurs once, there is no deadlock, and idle times match published formulas.
#include "train/parallel/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "experiments/26_pipeline/plans.h"

namespace folio::train::parallel {
namespace {

using experiments::idle_times;
using experiments::most_held;
using experiments::Plan;
using experiments::plan_interleaved;
using experiments::simulate;
using experiments::Times;

constexpr Times kTimes{.forward = 2, .backward_input = 3, .backward_weights = 2, .both = 7};

// Calls body(ranks, chunks, microbatches) for all tested combinations.
template <typename Body>
void for_all(Body&& body) {
  for (const int64_t ranks : {1, 2, 3, 4, 5, 8}) {
    for (const int64_t chunks : {1, 2, 3}) {
      for (int64_t microbatches = 1; microbatches <= 2 * ranks + 3; ++microbatches) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << chunks << " chunks, " << microbatches);
        body(ranks, chunks, microbatches);
      }
    }
  }
}

// Each action occurs once, and simulate() throws if their order leads to a deadlock.
TEST(Schedule, EveryMicrobatchPassesEveryChunkOnce) {
  for_all([](int64_t ranks, int64_t chunks, int64_t microbatches) {
    const Schedule schedule = interleaved(ranks, chunks, microbatches);
    ASSERT_EQ(std::ssize(schedule), ranks);
    for (const auto& actions : schedule) {
      ASSERT_EQ(std::ssize(actions), 2 * chunks * microbatches);
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        for (int64_t m = 0; m < microbatches; ++m) {
          EXPECT_EQ(std::count(actions.begin(), actions.end(), Action{Action::Kind::Forward, chunk, m}), 1);
          EXPECT_EQ(std::count(actions.begin(), actions.end(), Action{Action::Kind::Backward, chunk, m}), 1);
        }
      }
    }
    EXPECT_NO_THROW(simulate(plan_interleaved(ranks, chunks, microbatches), kTimes));
  });
}

// Each of p ranks idles for (p - 1)(F + B), where F and B are the times of a chunk's forward and backward pass.
TEST(Schedule, IdleTimeMatchesTheFormula) {
  for_all([](int64_t ranks, int64_t chunks, int64_t microbatches) {
    if (chunks > 1 && microbatches < ranks) return;  // with chunks, the formula needs at least `ranks` microbatches
    const auto timeline = simulate(plan_interleaved(ranks, chunks, microbatches), kTimes);
    for (const int64_t idle : idle_times(timeline)) EXPECT_EQ(idle, (ranks - 1) * (kTimes.forward + kTimes.backward()));
  });
}

TEST(Schedule, HoldsAsManyMicrobatchesAsRemainingStages) {
  for (const int64_t ranks : {1, 2, 4, 8}) {
    for (const int64_t microbatches : {1, 3, 8, 100}) {
      const auto held = most_held(experiments::plan_1f1b(ranks, microbatches));
      for (int64_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(held[static_cast<size_t>(rank)], static_cast<double>(std::min(ranks - rank, microbatches)));
      }
    }
  }
}

TEST(Schedule, OneChunkGives1F1B) {
  const std::vector<Action> last{{Action::Kind::Forward, 0, 0},
                                 {Action::Kind::Backward, 0, 0},
                                 {Action::Kind::Forward, 0, 1},
                                 {Action::Kind::Backward, 0, 1}};
  EXPECT_EQ(interleaved(4, 1, 2).back(), last);
}

TEST(Schedule, SimulationReportsDeadlocks) {
  Plan plan = experiments::plan_1f1b(2, 2);
  std::swap(plan.ranks[1][0], plan.ranks[1][1]);  // the backward pass before the forward pass
  try {
    static_cast<void>(simulate(plan, kTimes));
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_STREQ(error.what(), "1F1B: rank 0 waits forever with its action 3 of 4");
  }
}

}  // namespace
}  // namespace folio::train::parallel
