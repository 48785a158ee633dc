// Tests core/thread_limit.h with simulated waiting times, as if other threads used the cores and every runnable
// thread received an equal share of the time.
#include "core/thread_limit.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

namespace folio::core {
namespace {

double waiting(size_t threads, size_t busy, size_t cores) {
  const size_t all = threads + busy;
  const auto waiting = static_cast<double>(all - std::min(all, cores));
  return waiting * static_cast<double>(threads) / static_cast<double>(all);
}

// Updates the limit for `windows` time windows on `cores` cores while `busy` other threads run. Returns the limit after
// each window.
std::vector<size_t> limits(size_t cores, size_t busy, size_t windows, ThreadLimit& limit) {
  std::vector<size_t> all;
  for (size_t i = 0; i < windows; ++i) {
    limit.update(waiting(limit.now(), busy, cores), [] { return std::nullopt; });
    all.push_back(limit.now());
  }
  return all;
}

TEST(ThreadLimit, IdleMachineUsesAllThreads) {
  for (const size_t cores : {1, 2, 3, 16}) {
    ThreadLimit limit(cores);
    EXPECT_EQ(limits(cores, 0, 100, limit), std::vector<size_t>(100, cores));
  }
}

TEST(ThreadLimit, LeavesBusyCoresToOtherProcesses) {
  for (const auto& [cores, busy] : {std::pair<size_t, size_t>{2, 1}, {4, 1}, {4, 2}, {16, 1}, {16, 3}}) {
    ThreadLimit limit(cores);
    const std::vector<size_t> all = limits(cores, busy, 110, limit);
    EXPECT_GE(std::ranges::count(all, cores - busy), 98) << cores << " cores, " << busy << " busy";
    EXPECT_LE(std::ranges::count(all, cores), 7) << "a try in twenty windows";
  }
}

TEST(ThreadLimit, UsesHalfTheThreadsIfAllCoresAreBusy) {
  for (const size_t cores : {2, 4, 16}) {
    for (const size_t busy : {cores, 2 * cores}) {
      ThreadLimit limit(cores);
      const std::vector<size_t> all = limits(cores, busy, 110, limit);
      EXPECT_GE(std::ranges::count(all, cores / 2), 98) << cores << " cores, " << busy << " busy";
    }
  }
}

TEST(ThreadLimit, AllThreadsReturnOnceTheLoadEnds) {
  ThreadLimit limit(2);
  limits(2, 1, 5, limit);
  ASSERT_EQ(limit.now(), 1U);
  limits(2, 0, 20, limit);
  EXPECT_EQ(limits(2, 0, 100, limit), std::vector<size_t>(100, 2));
}

TEST(ThreadLimit, NeverUsesFewerThanHalfTheThreads) {
  for (const size_t cores : {1, 2, 3, 5, 16}) {
    ThreadLimit limit(cores);
    for (size_t i = 0; i < 100; ++i) {
      limit.update(static_cast<double>(i % 7) * static_cast<double>(cores), [] { return std::nullopt; });
      ASSERT_GE(limit.now(), (cores + 1) / 2);
      ASSERT_LE(limit.now(), cores);
    }
  }
}

TEST(ThreadLimit, StartsWithTheFreeCores) {
  for (const size_t cores : {1, 2, 3, 16}) {
    for (size_t free = 0; free <= cores; ++free) {
      ThreadLimit limit(cores);
      limit.start(free);
      EXPECT_EQ(limit.now(), std::max(free, (cores + 1) / 2));
    }
    ThreadLimit limit(cores);
    limit.start({});
    EXPECT_EQ(limit.now(), cores);
  }
}

TEST(ThreadLimit, RetriesAllThreadsEveryTwoHundredWindows) {
  ThreadLimit limit(2);
  limit.start(1);
  std::vector<size_t> all;
  for (size_t i = 0; i < 450; ++i) {
    limit.update(waiting(limit.now(), 1, 2), [] { return 1; });
    all.push_back(limit.now());
  }
  EXPECT_EQ(std::ranges::count(all, 2U), 2);
  limit.start(1);
  for (size_t i = 0; i < 20; ++i) limit.update(0.0, [] { return 2; });
  EXPECT_EQ(limit.now(), 2U);
}

TEST(FreeCores, DoesNotExceedTheNumberOfCores) {
  const auto free = free_cores(SIZE_MAX);
  if (!free) GTEST_SKIP() << "the system does not count threads that run";
  EXPECT_LE(*free, static_cast<size_t>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

// In containers, free_cores() can be wrong. If it returns 0 although no thread waits, the limit ignores free_cores().
TEST(ThreadLimit, IgnoresFreeCoresAfterAWrongCount) {
  ThreadLimit limit(4);
  limit.start(0);
  const auto none = [] { return 0; };
  for (size_t i = 0; i < 201; ++i) limit.update(0.0, none);
  EXPECT_EQ(limit.now(), 4U);
  limit.start(0);
  EXPECT_EQ(limit.now(), 4U);
}

// Two threads share a core and never sleep, so one always waits. If run_delay() didn't grow, the test would hang.
TEST(RunDelay, GrowsWhileThreadsWaitForACore) {
  if (!std::filesystem::exists("/proc/thread-self/schedstat")) GTEST_SKIP() << "the system does not count it";
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  std::atomic<bool> grew{false};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
      const auto before = run_delay();
      while (!grew) {
        if (run_delay() > before) grew = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace folio::core
