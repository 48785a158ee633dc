// Tests pipeline schedules: every action occurs once, and there is no deadlock. tests/apps/schedule_test.py compares
// them with those of PyTorch.
#include "train/parallel/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/26_pipeline/plans.h"
#include "tests/core/support.h"

namespace folio::train::parallel {
namespace {

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
  EXPECT_EQ(core::test::error_of([&] { static_cast<void>(simulate(plan, kTimes)); }),
            "1F1B: rank 0 waits forever with its action 3 of 4");
}

}  // namespace
}  // namespace folio::train::parallel
