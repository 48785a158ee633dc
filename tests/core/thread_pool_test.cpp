// Tests core/thread_pool.h: a loop runs each index once, ranges begin at multiples of the grain, and exceptions reach
// the caller.
#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"
#include "tests/core/support.h"
#include "tests/core/thread_states.h"

namespace folio::core {
namespace {

std::set<std::string> started_since(const std::set<std::string>& before) {
  std::set<std::string> threads = test::threads_of_process();
  std::erase_if(threads, [&](const std::string& thread) { return before.contains(thread); });
  return threads;
}

// Runs a loop, and returns the ranges of its chunks in rising order.
std::vector<std::pair<size_t, size_t>> ranges_of(ThreadPool& pool, size_t count, size_t grain) {
  std::mutex mutex;
  std::vector<std::pair<size_t, size_t>> ranges;
  pool.parallel_for(count, grain, [&](size_t begin, size_t end) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST(ThreadPool, CoversEachIndexOnceAtGrainBoundaries) {
  for (const size_t threads : {1, 2, 3, 4, 7}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.size(), threads);
    for (const size_t count : {0, 1, 2, 3, 5, 7, 8, 63, 64, 65, 257, 1000}) {
      for (const size_t grain : {1, 2, 3, 8, 64, 1000, 5000}) {
        size_t next = 0;
        for (const auto& [begin, end] : ranges_of(pool, count, grain)) {
          ASSERT_EQ(begin, next);
          ASSERT_LT(begin, end);
          ASSERT_EQ(begin % grain, 0U);
          next = end;
        }
        ASSERT_EQ(next, count) << threads << " threads, grain " << grain;
      }
    }
  }
}

TEST(ThreadPool, ChunksDependOnlyOnSizes) {
  ThreadPool pool(3, ThreadPool::Sharing::Always);
  const auto first = ranges_of(pool, 1000, 16);
  EXPECT_GT(first.size(), 3U);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(ranges_of(pool, 1000, 16), first);
}

TEST(ThreadPool, ChunkSizesDifferByAtMostOne) {
  ThreadPool pool(4);
  std::set<size_t> sizes;
  for (const auto& [begin, end] : ranges_of(pool, 1003, 1)) sizes.insert(end - begin);
  EXPECT_LE(*sizes.rbegin() - *sizes.begin(), 1U);
}

TEST(ThreadPool, SmallLoopsHaveOneChunkPerThread) {
  ThreadPool pool(4, ThreadPool::Sharing::Always);
  for (const size_t worth : {0, 1, 2, 3, 4, 8}) {
    std::atomic<size_t> pieces{0};
    pool.parallel_for(1000, 1, worth, [&](size_t, size_t) { ++pieces; });
    EXPECT_EQ(pieces, std::clamp<size_t>(worth, 1, 4));
  }
}

// If a worker stalls in its first chunk, as if another process used its core, the caller runs all other chunks.
TEST(ThreadPool, OthersTakeUnstartedChunks) {
  ThreadPool pool(2, ThreadPool::Sharing::Always);
  const auto caller = std::this_thread::get_id();
  constexpr size_t kPieces = 32;
  std::atomic<size_t> of_worker{0};
  std::atomic<size_t> of_caller{0};
  pool.parallel_for(kPieces, 1, [&](size_t, size_t) {
    if (std::this_thread::get_id() == caller) {
      while (of_worker == 0) std::this_thread::yield();
      ++of_caller;
    } else {
      ++of_worker;
      while (of_caller < kPieces - 1) std::this_thread::yield();
    }
  });
  EXPECT_EQ(of_worker, 1U);
  EXPECT_EQ(of_caller, kPieces - 1);
}

TEST(ThreadPool, RepeatedLoopsAreSynchronized) {
  ThreadPool pool(3);
  std::vector<uint32_t> cells(30, 0);
  constexpr uint32_t kRounds = 5000;
  for (uint32_t round = 0; round < kRounds; ++round) {
    // Each round reads what other threads wrote in the previous round, so without a barrier the values would be wrong.
    std::vector<uint32_t> next(cells.size());
    pool.parallel_for(cells.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) next[i] = cells[(i + 11) % cells.size()] + 1;
    });
    cells = std::move(next);
  }
  EXPECT_EQ(cells, std::vector<uint32_t>(30, kRounds));
}

// With four threads and four indices, each chunk is one index. `throwing` selects the chunks that throw, one bit each.
TEST(ThreadPool, RethrowsTheFirstExceptionAfterAllChunksEnd) {
  ThreadPool pool(4);
  for (int round = 0; round < 20; ++round) {
    for (unsigned throwing = 1; throwing < 16; ++throwing) {
      std::atomic<unsigned> ended{0};
      size_t caught = SIZE_MAX;
      try {
        pool.parallel_for(4, 1, [&](size_t begin, size_t) {
          ended |= 1U << begin;
          if ((throwing >> begin & 1U) != 0) throw begin;
        });
      } catch (const size_t share) {
        caught = share;
      }
      ASSERT_EQ(ended, 15U);
      ASSERT_EQ(caught, static_cast<size_t>(std::countr_zero(throwing)));
    }
    size_t sum = 0;  // checks that the pool still works
    for (const auto& [begin, end] : ranges_of(pool, 100, 1)) sum += end - begin;
    ASSERT_EQ(sum, 100U);
  }
}

// Loops of two or three chunks must use only as many threads, and always the same ones. The chunks of a loop wait for
// each other, so that no thread can run two of them.
TEST(ThreadPool, RunsFewerChunksThanThreads) {
  const std::set<std::string> others = test::threads_of_process();
  ThreadPool pool(5, ThreadPool::Sharing::Always);
  const std::set<std::string> workers = started_since(others);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for (uint32_t round = 0; round < 100; ++round) {
    const size_t worth = 2 + round % 2;
    if (round == 50) test::await_sleep(workers);
    std::vector<uint32_t> cells(64, 0);
    std::atomic<size_t> n_begun{0};
    pool.parallel_for(cells.size(), 1, worth, [&](size_t begin, size_t end) {
      ++n_begun;
      while (n_begun < worth) std::this_thread::yield();
      for (size_t i = begin; i < end; ++i) ++cells[i];
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
    ASSERT_EQ(cells, std::vector<uint32_t>(64, 1));
  }
  EXPECT_EQ(threads.size(), 3U);
}

// Threads that don't spin often fall asleep just as the signal arrives. A lost signal would make the test hang.
TEST(SignalCounter, LosesNoSignalWhileAThreadFallsAsleep) {
  constexpr uint32_t kRounds = 5'000;
  constexpr std::chrono::microseconds kNoSpins{0};
  SignalCounter asked;
  SignalCounter answered;
  std::thread other([&] {
    for (uint32_t n = 0; n < kRounds;) {
      n = asked.await_change(n, kNoSpins);
      answered.raise();
    }
  });
  for (uint32_t n = 0; n < kRounds;) {
    asked.raise();
    n = answered.await_change(n, kNoSpins);
  }
  other.join();
}

// The pauses between loops vary, so that loops begin while idle threads spin, fall asleep or sleep.
TEST(ThreadPool, LosesNoSignalWhileAThreadFallsAsleep) {
  ThreadPool pool(3, ThreadPool::Sharing::Always);
  const auto pause = [](uint32_t rounds) {
    for (volatile uint32_t i = 0; i < rounds;) i = i + 1;
  };
  std::atomic<size_t> sum{0};
  for (uint32_t round = 0; round < 1000; ++round) {
    pause(round * 7919 % 200'000);
    pool.parallel_for(3, 1, [&](size_t begin, size_t end) {
      if (begin == 2) pause(round * 6007 % 50'000);
      sum += end - begin;
    });
  }
  EXPECT_EQ(sum, 3000U);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers reserve more than 1 GiB
// With 1 GiB of address space, a few hundred threads can be started before one fails.
TEST(ThreadPool, AThreadThatCannotBeStartedIsAnError) {
  const std::string text = test::in_little_memory([] {
    std::string error = test::error_of([] { const ThreadPool pool(5000); });
    const ThreadPool after(2);  // succeeds only if the failed pool's threads have ended
    return error;
  });
  EXPECT_EQ(text.substr(0, 7), "thread ") << text;
  EXPECT_TRUE(test::contains(text, " of 5000 cannot be started: "));
  EXPECT_TRUE(test::contains(text, "; use fewer --threads"));
}
#endif

TEST(ThreadPool, ZeroThreadsMeansTheDefault) {
  EXPECT_GE(default_threads(), 1U);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(ThreadPool(0).size(), default_threads()) << "an unused pool shuts down";
}

}  // namespace
}  // namespace folio::core
