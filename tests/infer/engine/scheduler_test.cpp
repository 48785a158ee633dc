// Laws of infer/engine/scheduler.h, on a made-up machine: where a real one writes keys and values it writes a hash of
// the text up to there, and checks before each row that the blocks hold those of the text so far. The next token is a
// function of that text.
#include "infer/engine/scheduler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <numeric>
#include <random>

#include "tests/core/support.h"

namespace folio::infer {
namespace {

constexpr uint64_t kOfNothing = 14695981039346656037ULL;
uint64_t with_token(uint64_t hash, int32_t token) { return (hash ^ static_cast<uint64_t>(token)) * 1099511628211ULL; }

int32_t next_token(std::span<const int32_t> text) {
  const uint64_t hash = std::accumulate(text.begin(), text.end(), kOfNothing, with_token);
  return static_cast<int32_t>(hash >> 40U & 0xFFFU);
}

std::vector<int32_t> written_alone(std::vector<int32_t> text, size_t n_more) {
  for (size_t i = 0; i < n_more; ++i) text.push_back(next_token(text));
  return text;
}

class TextJob final : public ScheduledJob {
 public:
  TextJob(std::vector<int32_t> prompt, size_t n_more)
      : ScheduledJob(n_made_++), text(std::move(prompt)), n_prompt(text.size()), n_all(n_prompt + n_more) {}
  [[nodiscard]] std::span<const int32_t> tokens() const { return text; }
  [[nodiscard]] size_t shareable() const { return text.size() - 1; }
  [[nodiscard]] int64_t max_positions() const { return static_cast<int64_t>(n_all) - 1; }
  [[nodiscard]] size_t n_drafts() const { return 0; }
  [[nodiscard]] bool alone() const { return false; }
  [[nodiscard]] bool done() const { return text.size() == n_all; }

  std::vector<int32_t> text;
  size_t n_prompt;
  size_t n_all;
  int64_t number = 0;      ///< in the order in which they came
  int64_t asked_step = 0;  ///< when it came

 private:
  static inline RequestId n_made_ = 0;
};

// A scheduler with its cache and the made-up machine.
class Simulation {
 public:
  Simulation(int64_t n_blocks, const SchedulerLimits& limits)
      : cache(n_blocks), scheduler(cache, limits), max_rows_(limits.max_rows) {}

  void add(TextJob& job) {
    job.number = n_added_++;
    job.asked_step = n_steps;
    scheduler.add(job);
  }

  // Plans a step and runs it. The jobs that are done are removed, and returned.
  std::vector<TextJob*> step() {
    ++n_steps;
    const Scheduler<TextJob>::Trace& trace = scheduler.plan([](TextJob&, size_t most) { return most; });
    if (on_plan) on_plan(trace);
    size_t rows = 0;
    for (const auto& part : trace.shares) {
      rows += part.n_rows;
      cache.reserve(part.job->sequence(), static_cast<int64_t>(part.n_rows));
    }
    EXPECT_LE(rows, max_rows_);
    for (const BlockCopy& copy : cache.copies()) content_[copy.to] = content_[copy.from];
    std::vector<TextJob*> done;
    for (const auto& part : trace.shares) {
      TextJob& job = *part.job;
      if (run(job, part.n_rows) && job.done()) done.push_back(&job);
    }
    cache.commit();
    for (const auto& part : trace.shares) {
      const auto n = static_cast<size_t>(cache.length(part.job->sequence()));
      cache.remember(part.job->sequence(), part.job->tokens().first(n));
    }
    n_rows += rows;
    n_preempted += trace.preempted.size();
    for (TextJob* job : done) scheduler.remove(*job);
    return done;
  }

  BlockManager cache;
  Scheduler<TextJob> scheduler;
  int64_t n_steps = 0;
  size_t n_rows = 0;
  size_t n_preempted = 0;
  std::function<void(const Scheduler<TextJob>::Trace&)> on_plan{};

 private:
  // Writes the rows into their places. Whether a token came of it.
  bool run(TextJob& job, size_t n) {
    const auto table = cache.table(job.sequence());
    const auto length = static_cast<size_t>(cache.length(job.sequence()));
    uint64_t hash = kOfNothing;
    for (size_t i = 0; i < length + n; ++i) {
      auto& block = content_[table[i / kWhole]];
      block.resize(kWhole, 0);
      hash = with_token(hash, job.text[i]);
      if (i >= length) block[i % kWhole] = hash;
      if (block[i % kWhole] != hash) {
        ADD_FAILURE() << "request " << job.number << ": position " << i << " of block " << table[i / kWhole]
                      << " holds another text";
        return false;
      }
    }
    if (length + n < job.text.size()) return false;
    job.text.push_back(next_token(job.text));
    return true;
  }

  static constexpr auto kWhole = static_cast<size_t>(kBlockPositions);
  std::map<BlockId, std::vector<uint64_t>> content_;
  size_t max_rows_;
  int64_t n_added_ = 0;
};

std::vector<int32_t> text_of(size_t n, int32_t seed) {
  std::vector<int32_t> text(n);
  std::iota(text.begin(), text.end(), 10000 * seed);
  return text;
}

TEST(Scheduler, RunningRequestsComeFirstAndTheRestIsFilledWithPrompts) {
  Simulation s(100, {.max_rows = 50, .max_sequences = 10});
  TextJob a(text_of(20, 1), 100);
  TextJob b(text_of(60, 2), 100);
  TextJob c(text_of(10, 3), 100);
  for (TextJob* job : {&a, &b, &c}) s.add(*job);
  const auto rows = [&] {
    std::vector<size_t> n;
    for (const auto& part : s.scheduler.plan([](TextJob&, size_t most) { return most; }).shares) {
      n.push_back(part.n_rows);
    }
    return n;
  };
  EXPECT_EQ(rows(), (std::vector<size_t>{20, 30}));  // b's prompt is cut
  s.step();
  EXPECT_EQ(rows(), (std::vector<size_t>{1, 30, 10}));
  s.step();
  EXPECT_EQ(rows(), (std::vector<size_t>{1, 1, 1}));
}

TEST(Scheduler, NoMoreRunThanMay) {
  Simulation s(100, {.max_rows = 50, .max_sequences = 2});
  std::list<TextJob> jobs;
  for (int32_t i = 0; i < 5; ++i) s.add(jobs.emplace_back(text_of(5, i), 3));
  s.step();
  EXPECT_EQ(s.scheduler.running().size(), 2U);
  EXPECT_EQ(s.scheduler.waiting().size(), 3U);
}

TEST(Scheduler, TheYoungestIsPreemptedWhenBlocksRunOut) {
  Simulation s(4, {.max_rows = 200, .max_sequences = 10});
  TextJob old(text_of(32, 1), 60);
  TextJob young(text_of(32, 2), 60);
  s.add(old);
  s.add(young);
  while (!old.done() || !young.done()) {
    s.step();
    if (!old.done()) {
      EXPECT_TRUE(old.runs());
    }
    ASSERT_LT(s.n_steps, 1000);
  }
  EXPECT_GT(s.n_preempted, 0U);
  EXPECT_EQ(old.text, written_alone(text_of(32, 1), 60));
  EXPECT_EQ(young.text, written_alone(text_of(32, 2), 60));
}

TEST(Scheduler, AKnownPrefixIsNotComputedAgain) {
  Simulation s(100, {.max_rows = 500, .max_sequences = 10});
  TextJob first(text_of(100, 1), 2);
  s.add(first);
  while (!first.done()) s.step();
  EXPECT_EQ(s.cache.blocks_in_use(), 0);
  const size_t rows = s.n_rows;
  std::vector<int32_t> longer = text_of(100, 1);
  longer.push_back(7);
  TextJob second(longer, 1);
  s.add(second);
  s.step();
  EXPECT_EQ(second.n_cached(), 96);
  EXPECT_EQ(s.n_rows - rows, 5U);
}

TEST(Scheduler, WhatTwoBeginWithIsComputedOnce) {
  Simulation s(100, {.max_rows = 40, .max_sequences = 10});
  std::list<TextJob> choices;
  for (int i = 0; i < 3; ++i) {
    s.add(choices.emplace_back(text_of(100, 1), 5 + static_cast<size_t>(i)));
    if (i > 0) choices.back().share_with(choices.front().id());
  }
  while (!s.scheduler.running().empty() || !s.scheduler.waiting().empty()) s.step();
  EXPECT_EQ(s.n_rows, 100U + 4 + 1 + 5 + 1 + 6) << "a row of the prompt each, and the tokens but for the last";
  for (const TextJob& choice : choices) {
    EXPECT_EQ(choice.text, written_alone(text_of(100, 1), choice.n_all - choice.n_prompt));
  }
  // The older one may be gone before the younger starts.
  TextJob gone(text_of(100, 1), 3);
  TextJob left(text_of(100, 1), 3);
  left.share_with(gone.id());
  s.add(gone);
  s.add(left);
  s.step();
  s.scheduler.remove(gone);
  while (!left.done()) s.step();
  EXPECT_EQ(left.text, written_alone(text_of(100, 1), 3));
}

TEST(Scheduler, WhatCanNeverFitIsRefusedAtOnce) {
  Simulation s(3, {.max_rows = 50, .max_sequences = 2});
  TextJob fits(text_of(90, 1), 7);
  TextJob too_long(text_of(90, 1), 8);
  s.add(fits);
  EXPECT_ERROR(s.add(too_long), "97 positions need 4 blocks of the KV cache, which has 3");
}

TEST(Scheduler, JobsGoOnOnlyWhereBlocksAreLeftAndNobodyCanStart) {
  Simulation s(3, {.max_rows = 100, .max_sequences = 10});
  TextJob a(text_of(32, 1), 10);
  TextJob b(text_of(31, 2), 10);
  s.add(a);
  s.step();
  TextJob* jobs[] = {&a};
  EXPECT_TRUE(s.scheduler.can_go_on(jobs));
  s.add(b);
  EXPECT_FALSE(s.scheduler.can_go_on(jobs));  // b can start
  s.step();
  TextJob* both[] = {&a, &b};
  EXPECT_TRUE(s.scheduler.can_go_on(both));
  s.step();
  EXPECT_FALSE(s.scheduler.can_go_on(both));  // b needs a second block
}

// Steps that are like the one before are left out.
TEST(Scheduler, ItsTraceCanBeRead) {
  Simulation s(5, {.max_rows = 64, .max_sequences = 3});
  TextJob a(text_of(60, 1), 30);
  TextJob b(text_of(40, 2), 40);
  TextJob c(text_of(61, 1), 5);  // begins as a does
  const auto name = [&](const TextJob& job) { return &job == &a ? "a" : &job == &b ? "b" : "c"; };
  std::string trace;
  std::string before;
  int repeated = 0;
  s.on_plan = [&](const Scheduler<TextJob>::Trace& plan) {
    const std::string line = plan.text(name);
    repeated = line == before ? repeated + 1 : 0;
    if (repeated == 0) trace += fmt::format("{:3}: {}\n", s.n_steps, line);
    before = line;
  };
  s.add(a);
  s.add(b);
  s.step();
  s.add(c);
  while (!a.done() || !b.done() || !c.done()) {
    s.step();
    ASSERT_LT(s.n_steps, 200);
  }
  EXPECT_EQ(trace,
            "  1: 5 blocks free; a starts; b starts; a 60, b 4 rows\n"
            "  2: 2 blocks free; c starts, 32 cached; a 1, b 36, c 27 rows\n"
            "  3: 0 blocks free; a 1, b 1, c 2 rows\n"
            "  4: 0 blocks free; a 1, b 1, c 1 rows\n"
            "  6: 0 blocks free; c is preempted; a 1, b 1 rows\n"
            "  7: 0 blocks free; a 1, b 1 rows\n"
            " 27: 0 blocks free; b is preempted; a 1 row\n"
            " 28: 2 blocks free; a 1 row\n"
            " 31: 5 blocks free; b starts, 64 cached; b 1 row\n"
            " 32: 2 blocks free; b 1 row\n"
            " 46: 5 blocks free; c starts, 32 cached; c 32 rows\n"
            " 47: 3 blocks free; c 1 row\n");
}

// Random arrivals, lengths, shared beginnings and cancellations.
TEST(Scheduler, EveryRequestEndsWithItsOwnTextAndNoBlockIsLost) {
  std::mt19937_64 random(1);
  const auto up_to = [&](size_t n) { return static_cast<size_t>(random() % n); };
  size_t n_ended = 0;
  size_t n_preempted = 0;
  int64_t n_shared = 0;
  for (int64_t steps = 0; steps < 100'000;) {
    const auto n_blocks = static_cast<int64_t>(4 + up_to(60));
    Simulation s(n_blocks, {.max_rows = 1 + up_to(100), .max_sequences = 1 + up_to(12)});
    std::list<TextJob> jobs;
    std::map<const TextJob*, std::vector<int32_t>> prompts;
    std::vector<int64_t> started;
    const size_t n_requests = 20 + up_to(60);
    for (size_t n_come = 0; n_come < n_requests || !jobs.empty();) {
      if (n_come < n_requests && up_to(4) == 0) {
        const size_t most = static_cast<size_t>(std::min<int64_t>(n_blocks, 8)) * 32;
        size_t n_prompt = 1 + up_to(most);
        if (!jobs.empty() && up_to(4) == 0) n_prompt = jobs.back().n_prompt;
        std::vector<int32_t> prompt = text_of(n_prompt, static_cast<int32_t>(up_to(3)));
        if (up_to(3) == 0) {  // equal blocks behind different beginnings
          for (size_t i = 0; i < n_prompt; ++i) prompt[i] = static_cast<int32_t>(i % 32);
        }
        for (size_t i = up_to(n_prompt); i < n_prompt && up_to(2) == 0; ++i) prompt[i] = static_cast<int32_t>(up_to(2));
        TextJob& job = jobs.emplace_back(prompt, 1 + up_to(most + 1 - n_prompt));
        prompts[&job] = prompt;
        s.add(job);
        for (TextJob& older : jobs) {  // choices of one prompt
          if (&older != &job && older.n_prompt == n_prompt && prompts.at(&older) == prompt) job.share_with(older.id());
        }
        ++n_come;
      }
      if (!jobs.empty() && up_to(200) == 0) {
        const auto gone = std::next(jobs.begin(), static_cast<std::ptrdiff_t>(up_to(jobs.size())));
        s.scheduler.remove(*gone);
        jobs.erase(gone);
      }
      const auto done = s.step();
      ASSERT_FALSE(HasFailure());
      const auto running = s.scheduler.running();
      const auto waiting = s.scheduler.waiting();
      for (const auto* job : running) n_shared += job->n_cached();
      // Those that run came before those that wait, and each in their order.
      std::vector<int64_t> order;
      for (const auto* job : running) order.push_back(job->number);
      for (const auto* job : waiting) order.push_back(job->number);
      ASSERT_TRUE(std::is_sorted(order.begin(), order.end()));
      // Every block is held as often as tables have it, and the others are free.
      std::map<BlockId, int> held;
      for (const auto* job : running) {
        for (const BlockId block : s.cache.table(job->sequence())) ++held[block];
      }
      ASSERT_EQ(static_cast<int64_t>(held.size()), s.cache.blocks_in_use());
      ASSERT_TRUE(jobs.empty() || done.size() + running.size() > 0) << "nobody runs, and " << jobs.size() << " wait";
      for (TextJob* job : done) {
        ASSERT_EQ(job->text, written_alone(prompts.at(job), job->n_all - job->n_prompt));
        ++n_ended;
        jobs.remove_if([&](const TextJob& j) { return &j == job; });
      }
      ASSERT_LT(s.n_steps, 200'000) << "somebody waits for ever";
    }
    EXPECT_EQ(s.cache.blocks_in_use(), 0);
    n_preempted += s.n_preempted;
    steps += s.n_steps;
  }
  EXPECT_GT(n_ended, 2'000U);
  EXPECT_GT(n_preempted, 100U);
  EXPECT_GT(n_shared, 10'000);
}

}  // namespace
}  // namespace folio::infer
