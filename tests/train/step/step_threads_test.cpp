#include "train/step/step_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

namespace folio::train {
namespace {

TEST(StepThreads, FollowTheProcessorsThatOthersLeave) {
  EXPECT_EQ(threads_that_fit(2, 2.0, 2), 2);
  EXPECT_EQ(threads_that_fit(2, 1.3, 2), 1) << "one busy process beside two spinning threads on two processors";
  EXPECT_EQ(threads_that_fit(1, 1.0, 2), 1) << "and beside one thread";
  EXPECT_EQ(threads_that_fit(1, 0.6, 2), 1) << "two busy processes";
  EXPECT_EQ(threads_that_fit(2, 14.0, 2), 2) << "others are elsewhere";
  EXPECT_EQ(threads_that_fit(16, 14.0, 16), 14);
  EXPECT_EQ(threads_that_fit(14, 15.0, 16), 15);
  // Between the bounds nothing changes, so noise does not switch back and forth.
  EXPECT_EQ(threads_that_fit(2, 1.7, 2), 2);
  EXPECT_EQ(threads_that_fit(1, 1.7, 2), 1);
  EXPECT_EQ(threads_that_fit(1, 1.9, 2), 2);
}

TEST(StepThreads, AreFewerWhereThatChangesNoBit) {
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

// Processor time of this process, in ms, while a thread of LibTorch has nothing to do between operations.
double idle_ms() {
  const auto now = [] {
    timespec t{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
  };
  torch::Tensor x = torch::zeros({1 << 17});  // enough for two threads
  x.add_(1.0);
  const double before = now();
  for (int i = 0; i < 100; ++i) {
    x.add_(1.0);
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return now() - before;
}

TEST(StepThreads, ThatWaitTakeHardlyAnyTimeOnceTheyDoNotSpin) {
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}) {
    if (std::getenv(name) != nullptr) GTEST_SKIP() << name << " is set: OpenMP waits as it says";
  }
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  StepThreads step_threads(2, nullptr);
  const double on = idle_ms();
  step_threads.set_spinning(false);
  EXPECT_FALSE(step_threads.spins());
  const double off = idle_ms();
  step_threads.set_spinning(true);
  const double on_again = idle_ms();
  at::set_num_threads(threads);
  // 300,000 rounds against 100.
  EXPECT_LT(off, on / 2);
  EXPECT_LT(off, on_again / 2);
}

}  // namespace
}  // namespace folio::train
