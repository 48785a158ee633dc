#include "train/step/step_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/core/thread_states.h"

namespace folio::train {
namespace {

TEST(StepThreads, UseProcessorsLeftByOthers) {
  EXPECT_EQ(threads_that_fit(2, 2.0, 2), 2);
  EXPECT_EQ(threads_that_fit(2, 1.3, 2), 1) << "one busy process beside two spinning threads on two processors";
  EXPECT_EQ(threads_that_fit(1, 1.0, 2), 1) << "and beside one thread";
  EXPECT_EQ(threads_that_fit(1, 0.6, 2), 1) << "two busy processes";
  EXPECT_EQ(threads_that_fit(2, 14.0, 2), 2) << "others are elsewhere";
  EXPECT_EQ(threads_that_fit(16, 14.0, 16), 14);
  EXPECT_EQ(threads_that_fit(14, 15.0, 16), 15);
  // A thread is removed if the threads lack 0.35 of a processor, and added if with it they lack less than 0.2. In
  // between, the number stays the same, so that noise does not switch it back and forth.
  EXPECT_EQ(threads_that_fit(2, 1.7, 2), 2);
  EXPECT_EQ(threads_that_fit(1, 1.7, 2), 1);
  EXPECT_EQ(threads_that_fit(1, 1.9, 2), 2);
}

TEST(StepThreads, AreReducedIfResultsStayBitExact) {
  const int before = at::get_num_threads();
  std::vector<int> asked;
  {
    StepThreads threads(4, [&](int n) { return asked.push_back(n), n != 2; });
    at::set_num_threads(4);
    for (const int n : {4, 3, 1, 3, 4, 1}) {
      threads.fit(n);
      EXPECT_EQ(at::get_num_threads(), n);
      EXPECT_TRUE(threads.spins());
    }
    EXPECT_EQ(asked, (std::vector<int>{3, 1})) << "each number once";
    threads.fit(2);
    EXPECT_EQ(at::get_num_threads(), 4);
    EXPECT_FALSE(threads.spins());
    threads.fit(1);
    EXPECT_EQ(at::get_num_threads(), 4) << "which of them would do is not tried on";
    threads.fit(4);
    EXPECT_TRUE(threads.spins());
  }
  EXPECT_EQ(at::get_num_threads(), 4) << "the number at the start";
  at::set_num_threads(before);
}

// libgomp's threads hardly spin if there are more of them than processors. The test counts threads, since spinning
// times are internal to libgomp.
TEST(StepThreads, ExceedTheProcessorsToAvoidSpinning) {
  constexpr int kThreads = 2;
  const std::set<std::string> others = core::test::threads_of_process();
  const auto n_extra = [&] {
    int n = 0;
    for (const std::string& thread : core::test::threads_of_process()) n += others.contains(thread) ? 0 : 1;
    return n;
  };
  StepThreads threads(kThreads, nullptr);
  threads.set_spinning(false);
  EXPECT_FALSE(threads.spins());
  EXPECT_GT(kThreads + n_extra(), omp_get_num_procs());
  threads.set_spinning(true);
  EXPECT_TRUE(threads.spins());
  while (n_extra() > 0) std::this_thread::yield();  // the extra threads end a little later
}

}  // namespace
}  // namespace folio::train
