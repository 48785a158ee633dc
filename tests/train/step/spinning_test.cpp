#include "train/step/spinning.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace folio::train {
namespace {

TEST(Spinning, FollowsTheProcessorsThatOthersLeave) {
  EXPECT_TRUE(should_spin(true, 2.0, 2));
  EXPECT_FALSE(should_spin(true, 1.3, 2)) << "one busy process beside two spinning threads on two processors";
  EXPECT_FALSE(should_spin(false, 1.0, 2)) << "and beside two that sleep";
  EXPECT_TRUE(should_spin(true, 14.0, 2)) << "others are elsewhere";
  EXPECT_FALSE(should_spin(true, 14.0, 16));
  // Between the bounds nothing changes, so noise does not switch back and forth.
  EXPECT_TRUE(should_spin(true, 1.7, 2));
  EXPECT_FALSE(should_spin(false, 1.7, 2));
  EXPECT_TRUE(should_spin(false, 1.9, 2));
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

TEST(Spinning, ThreadsThatWaitTakeHardlyAnyTimeOnceItIsOff) {
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}) {
    if (std::getenv(name) != nullptr) GTEST_SKIP() << name << " is set: OpenMP waits as it says";
  }
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  Spinning spinning(2);
  const double on = idle_ms();
  spinning.set(false);
  EXPECT_FALSE(spinning.spins());
  const double off = idle_ms();
  spinning.set(true);
  const double on_again = idle_ms();
  at::set_num_threads(threads);
  // 300,000 rounds against 100.
  EXPECT_LT(off, on / 2);
  EXPECT_LT(off, on_again / 2);
}

}  // namespace
}  // namespace folio::train
