// Tests of all_reduce: all ranks end with the same sum, bit for bit, and each sends less than twice its array's size.
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

// Simulates the ranks as threads. pass() throws on deadlock, when every thread is waiting or has ended.
class Ranks {
 public:
  explicit Ranks(size_t n) : inbox_(n), sent_(n, 0), state_(n, State::Runs) {}

  // Calls all_reduce() on all ranks and returns their arrays.
  std::vector<Floats> reduce(std::vector<Floats> arrays) {
    std::vector<std::exception_ptr> errors(arrays.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < arrays.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          all_reduce(arrays[rank],
                     {rank, arrays.size(), [this, rank](const Floats& numbers) { return pass(rank, numbers); }});
        } catch (...) {
          errors[rank] = std::current_exception();
        }
        const std::lock_guard lock(mutex_);
        state_[rank] = State::HasEnded;
        look();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    for (const auto& left : inbox_) {
      EXPECT_TRUE(left.empty())
          << "A rank was sent numbers that it did not take: all ranks have to pass equally often.";
    }
    return arrays;
  }

  [[nodiscard]] const std::vector<size_t>& sent() const { return sent_; }

 private:
  Floats pass(size_t rank, const Floats& numbers) {
    std::unique_lock lock(mutex_);
    sent_[rank] += numbers.size();
    inbox_[(rank + 1) % inbox_.size()].push_back(numbers);
    moved_.notify_all();
    state_[rank] = State::Waits;
    look();
    moved_.wait(lock, [&] { return stuck_ || !inbox_[rank].empty(); });
    state_[rank] = State::Runs;
    if (inbox_[rank].empty()) {
      throw std::runtime_error("Rank " + std::to_string(rank) +
                               " waits for numbers that the rank before never sends: all ranks have to pass equally "
                               "often, also where there is nothing in a chunk.");
    }
    Floats came = inbox_[rank].front();
    inbox_[rank].pop_front();
    return came;
  }

  // Sets stuck_ if no rank can continue (deadlock). The caller must hold mutex_.
  void look() {
    for (size_t rank = 0; rank < inbox_.size(); ++rank) {
      if (state_[rank] == State::Runs || (state_[rank] == State::Waits && !inbox_[rank].empty())) return;
    }
    stuck_ = true;
    moved_.notify_all();
  }

  enum class State { Runs, Waits, HasEnded };
  std::mutex mutex_;
  std::condition_variable moved_;
  std::vector<std::deque<Floats>> inbox_;
  std::vector<size_t> sent_;
  std::vector<State> state_;
  bool stuck_ = false;
};

std::vector<Floats> random_arrays(size_t n_ranks, size_t n) {
  std::vector<Floats> arrays;
  for (size_t rank = 0; rank < n_ranks; ++rank) arrays.push_back(random_floats(n, rank + 1));
  return arrays;
}

void expect_sum(const std::vector<Floats>& arrays, const std::string& why) {
  Floats sum(arrays[0].size(), 0.0F);
  for (const Floats& array : arrays) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += array[i];
  }
  const std::vector<Floats> got = Ranks(arrays.size()).reduce(arrays);
  for (size_t rank = 0; rank < got.size(); ++rank) {
    expect_close(got[rank], sum, 1e-5,
                 "At rank " + std::to_string(rank) + " of " + std::to_string(got.size()) + ". " + why);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(AllReduce, OneRankSendsNothing) {
  Ranks alone(1);
  expect_close(alone.reduce({{1.0F, 2.0F}})[0], {1.0F, 2.0F}, 0.0, "There is one rank, so the sum is its own array.");
  EXPECT_EQ(alone.sent()[0], 0U) << "There is one rank, and it sends to itself: p - 1 passes are none.";
}

TEST(AllReduce, TwoRanksHaveTheSum) {
  expect_sum(
      {{1.0F, 2.0F}, {10.0F, 20.0F}},
      "The arrays are (1, 2) and (10, 20). A number that is still one of these was never replaced: round 2 brings "
      "the sums to those that lack them. 12 or 21 has a number twice: round 2 replaces, and does not add. 5.5 is "
      "the mean.");
}

TEST(AllReduce, FourRanksHaveTheSum) {
  expect_sum(
      {{1, 2, 3, 4}, {10, 20, 30, 40}, {100, 200, 300, 400}, {1000, 2000, 3000, 4000}},
      "The digits say whose numbers are in it. With two ranks the next and the one before are the same; here they "
      "are not: what comes from the rank before is its chunk r - s - 1.");
}

TEST(AllReduce, WhatDoesNotDivideIsSummedToo) {
  expect_sum(random_arrays(3, 7),
             "7 numbers, 3 ranks: the chunks have 2, 2 and 3 numbers, or another such cut, and together all 7.");
}

TEST(AllReduce, ThereMayBeFewerNumbersThanRanks) {
  expect_sum(random_arrays(5, 2), "2 numbers, 5 ranks: some chunks are empty, and are passed all the same.");
}

TEST(AllReduce, AllRanksHaveTheSameBits) {
  const std::vector<Floats> got = Ranks(4).reduce(random_arrays(4, 64));
  for (const Floats& other : got) {
    ASSERT_EQ(other, got[0]) << "Two ranks differ in the last bits. (a + b) + c is not a + (b + c): if each adds the "
                                "others' numbers to its own, each has another order. A chunk is to be summed once, on "
                                "its way, and copied from there.";
  }
}

TEST(AllReduce, ARankSendsItsArrayLessThanTwice) {
  Ranks ranks(4);
  static_cast<void>(ranks.reduce(random_arrays(4, 64)));
  for (const size_t sent : ranks.sent()) {
    EXPECT_LE(sent, 2U * 3U * 64U / 4U)
        << "4 ranks, 64 numbers: 2 rounds of 3 passes of 16 numbers are 96. Send the chunk "
           "alone, not all of the array.";
  }
}

}  // namespace
}  // namespace folio::exercises
