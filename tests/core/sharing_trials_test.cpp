// Tests core/sharing_trials.h with simulated loop times: the faster variant, all threads or one thread, is selected.
#include "core/sharing_trials.h"

#include <gtest/gtest.h>

namespace folio::core {
namespace {

using std::chrono::nanoseconds;

// Simulates `loops` loops, each estimated at `worth` µs. A loop takes `shared` on all threads and `alone` on one
// thread. Returns the number of loops that ran on all threads.
size_t n_shared(SharingTrials& trials, size_t worth, size_t loops, nanoseconds shared, nanoseconds alone) {
  size_t n = 0;
  for (size_t i = 0; i < loops; ++i) {
    const bool shares = trials.shares(worth);
    n += shares ? 1 : 0;
    trials.record(worth, shares ? shared : alone);
  }
  return n;
}

TEST(SharingTrials, SelectsTheFasterVariantForEachSizeInMostLoops) {
  SharingTrials trials;
  for (const size_t worth : {2, 9, 33, 255}) {
    EXPECT_GE(n_shared(trials, worth, 10'000, nanoseconds(3000), nanoseconds(4000)), 9600U) << worth;
    n_shared(trials, worth, 100'000, nanoseconds(5000), nanoseconds(4000));  // enough loops to replace the old times
    EXPECT_LE(n_shared(trials, worth, 100'000, nanoseconds(5000), nanoseconds(4000)), 500U) << worth;
  }
}

TEST(SharingTrials, LongLoopsAreAlwaysShared) {
  SharingTrials trials;
  EXPECT_EQ(n_shared(trials, 1000, 5000, nanoseconds(5000), nanoseconds(1)), 5000U);
  EXPECT_FALSE(trials.times(1000));
}

// Sharing must stay selected although one of the timed loops, which begin after 256, takes 3 ms, as if a thread waited
// for a core.
TEST(SharingTrials, OneOutlierDoesNotDecide) {
  SharingTrials trials;
  for (size_t i = 0; i < 400; ++i) {
    const bool waits = i == 263;
    ASSERT_TRUE(!waits || trials.times(16));
    trials.record(16, waits ? nanoseconds(3'000'000) : nanoseconds(trials.shares(16) ? 8'000 : 16'000));
  }
  EXPECT_TRUE(trials.shares(16));
}

}  // namespace
}  // namespace folio::core
