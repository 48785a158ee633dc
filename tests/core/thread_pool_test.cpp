// Laws of core/thread_pool.h: every index once, borders on grains, as often as one likes.
#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <numeric>
#include <utility>

namespace folio::core {
namespace {

TEST(ThreadPool, CoversEachIndexOnceOnGrainBorders) {
  for (const size_t threads : {1, 2, 3, 4, 7}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.size(), threads);
    for (const size_t count : {0, 1, 2, 3, 5, 7, 8, 63, 64, 65, 257, 1000}) {
      for (const size_t grain : {1, 2, 3, 8, 64, 1000, 5000}) {
        std::vector<int> hits(count, 0);  // ranges are disjoint, so no two threads touch one element
        std::mutex mutex;
        std::vector<std::pair<size_t, size_t>> ranges;
        pool.parallel_for(count, grain, [&](size_t begin, size_t end) {
          for (size_t i = begin; i < end; ++i) ++hits[i];
          const std::lock_guard lock(mutex);
          ranges.emplace_back(begin, end);
        });
        ASSERT_EQ(hits, std::vector<int>(count, 1)) << threads << " threads, grain " << grain;
        ASSERT_LE(ranges.size(), threads);
        for (const auto& [begin, end] : ranges) {
          ASSERT_LT(begin, end);
          ASSERT_EQ(begin % grain, 0U);
          ASSERT_TRUE(end % grain == 0 || end == count);
        }
      }
    }
  }
}

TEST(ThreadPool, TheCutIsAFunctionOfTheSizesAlone) {
  ThreadPool pool(3);
  const auto cut = [&] {
    std::mutex mutex;
    std::vector<std::pair<size_t, size_t>> ranges;
    pool.parallel_for(1000, 16, [&](size_t begin, size_t end) {
      const std::lock_guard lock(mutex);
      ranges.emplace_back(begin, end);
    });
    std::sort(ranges.begin(), ranges.end());
    return ranges;
  };
  const auto first = cut();
  EXPECT_EQ(first.size(), 3U);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(cut(), first);
}

TEST(ThreadPool, SharesAreEven) {
  ThreadPool pool(4);
  std::mutex mutex;
  size_t least = SIZE_MAX;
  size_t most = 0;
  pool.parallel_for(1003, 1, [&](size_t begin, size_t end) {
    const std::lock_guard lock(mutex);
    least = std::min(least, end - begin);
    most = std::max(most, end - begin);
  });
  EXPECT_LE(most - least, 1U);
}

TEST(ThreadPool, WorksThousandsOfTimes) {
  ThreadPool pool(3);
  std::vector<uint32_t> cells(30, 0);
  constexpr uint32_t kRounds = 5000;
  for (uint32_t round = 0; round < kRounds; ++round) {
    // Each round reads what other threads wrote in the round before: a missing barrier shows as a wrong number.
    std::vector<uint32_t> next(cells.size());
    pool.parallel_for(cells.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) next[i] = cells[(i + 11) % cells.size()] + 1;
    });
    cells = std::move(next);
  }
  EXPECT_EQ(cells, std::vector<uint32_t>(30, kRounds));
}

TEST(ThreadPool, WakesAfterItSlept) {
  ThreadPool pool(3);
  for (int round = 0; round < 10; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::vector<int> hits(100, 0);
    pool.parallel_for(100, 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) ++hits[i];
    });
    ASSERT_EQ(std::accumulate(hits.begin(), hits.end(), 0), 100);
  }
}

TEST(ThreadPool, EndsWithoutEverHavingWorked) {
  for (int i = 0; i < 50; ++i) const ThreadPool pool(4);
}

TEST(ThreadPool, TakesBodiesByReferenceAndByValue) {
  ThreadPool pool(2);
  std::atomic<size_t> sum{0};
  const auto body = [&sum](size_t begin, size_t end) { sum += end - begin; };
  pool.parallel_for(10, 1, body);
  auto changing = [&sum, calls = 0](size_t begin, size_t end) mutable {
    calls = 1;  // a body may keep state, though all threads share it
    sum += end - begin + static_cast<size_t>(calls) - 1;
  };
  ThreadPool alone(1);
  alone.parallel_for(10, 1, changing);
  EXPECT_EQ(sum, 20U);
}

TEST(ThreadPool, ZeroThreadsMeansThoseOfTheMachine) {
  EXPECT_GE(default_threads(), 1U);
  EXPECT_EQ(ThreadPool(0).size(), default_threads());
}

}  // namespace
}  // namespace folio::core
