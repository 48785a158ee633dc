// Tests infer/engine/scheduler.h (which rows a step computes, preemption, prefix cache) with a simulated machine.
#include "infer/engine/scheduler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <numeric>
#include <random>

#include "tests/core/support.h"
#include "tests/infer/engine/simulation.h"
#include "tests/infer/sanitized.h"

namespace folio::infer {
namespace {

using test::searched_alone;
using test::Simulation;
using test::TextRequest;
using test::written_alone;

std::vector<int32_t> text_of(size_t n, int32_t seed) {
  std::vector<int32_t> text(n);
  std::iota(text.begin(), text.end(), 10000 * seed);
  return text;
}

TEST(Scheduler, ComputesSharedPrefixesOnce) {
  Simulation s(100, {.max_rows = 40, .max_sequences = 10});
  TextRequest choices(text_of(100, 1), 5, 3);
  s.add(choices);
  while (!choices.done()) s.step();
  EXPECT_EQ(s.n_rows, 100U + 4 + 1 + 4 + 1 + 4) << "each choice: a prompt row, and a row per token except the last";
  for (const auto& text : choices.texts) EXPECT_EQ(text, written_alone(text_of(100, 1), 5));
  // The second choice is correct even if the first, which computes the prompt, is removed before the second starts.
  TextRequest two(text_of(100, 2), 3, 2);
  s.add(two);
  s.step();
  s.scheduler.remove(two.sequences[0]);
  while (!two.sequences[1].done()) s.step();
  EXPECT_EQ(two.texts.at(0), written_alone(text_of(100, 2), 3));
}

TEST(Scheduler, BeamsShareCommonBlocks) {
  Simulation s(100, {.max_rows = 40, .max_sequences = 10});
  TextRequest beams(text_of(100, 1), 6, 4, true);
  s.add(beams);
  int64_t most = 0;
  while (!beams.done()) {
    s.step();
    most = std::max(most, s.cache.blocks_in_use());
  }
  EXPECT_EQ(beams.texts, searched_alone(text_of(100, 1), 4, 6));
  EXPECT_EQ(s.n_rows, 100U + 2 + 4 + 4 + 4 + 4) << "two after the first token, then four at a time";
  EXPECT_LE(most, 3 + 4 + 2) << "three whole blocks of the prompt, and one of each beam";
}

// The KV cache has memory for one and a half beam searches. One of two must be preempted with all its beams.
TEST(Scheduler, BeamsArePreemptedAndStartTogether) {
  Simulation s(21, {.max_rows = 200, .max_sequences = 8});
  TextRequest old(text_of(40, 1), 100, 4, true);
  TextRequest young(text_of(40, 2), 100, 4, true);
  s.add(old);
  s.add(young);
  s.on_plan = [&](const Scheduler::Trace& trace) {
    if (!trace.preempted.empty()) {
      EXPECT_TRUE(std::ranges::none_of(young.sequences, [](const Sequence& b) { return b.runs(); }));
    }
  };
  while (!old.done() || !young.done()) {
    s.step();
    ASSERT_LT(s.n_steps, 1000);
  }
  EXPECT_GT(s.n_preempted, 0U);
  EXPECT_EQ(old.texts, searched_alone(text_of(40, 1), 4, 100));
  EXPECT_EQ(young.texts, searched_alone(text_of(40, 2), 4, 100));
}

TEST(Scheduler, BeamsCountAsManySequences) {
  Simulation s(100, {.max_rows = 50, .max_sequences = 5});
  TextRequest one(text_of(5, 0), 30);
  TextRequest beams(text_of(5, 1), 3, 4, true);
  TextRequest next(text_of(5, 2), 3);
  for (TextRequest* request : {&one, &beams, &next}) s.add(*request);
  s.step();
  EXPECT_EQ(s.scheduler.waiting().size(), 1U) << "places are reserved for the beams to come";
  while (!beams.done()) s.step();
  s.step();
  EXPECT_TRUE(next->runs());
  TextRequest too_many(text_of(5, 3), 3, 6, true);
  EXPECT_ERROR(s.add(too_many), "6 beams exceed the maximum of 5 sequences");
  TextRequest too_long(text_of(64, 3), 1600, 2, true);
  EXPECT_ERROR(s.add(too_long), "2 beams of 1663 positions need 104 blocks");
}

TEST(Scheduler, DraftsLeaveBlocksToLaterSequences) {
  Simulation s(3, {.max_rows = 100, .max_sequences = 2});
  TextRequest oldest(text_of(kBlockPositions - 1, 1), 20);
  TextRequest later(text_of(kBlockPositions, 2), 10);  // its next row needs a block
  s.add(oldest);
  s.add(later);
  s.step();
  oldest.sequences[0].set_optional(15);  // 15 drafts, which need the only free block
  const auto& trace = s.scheduler.plan([](Sequence&, size_t most) { return most; });
  EXPECT_TRUE(trace.preempted.empty());
  ASSERT_EQ(trace.shares.size(), 2U);
  EXPECT_EQ(trace.shares[0].n_rows, 1U);
  EXPECT_EQ(trace.shares[1].n_rows, 1U);
}

TEST(Scheduler, PreemptionsAreReportedEvenIfAppendingThrows) {
  Simulation s(2, {.max_rows = 100, .max_sequences = 2});
  TextRequest old(text_of(kBlockPositions - 1, 1), 10);
  TextRequest young(text_of(20, 2), 10);
  s.add(old);
  s.add(young);
  s.step();
  s.step();  // the next row of `old` needs a second block
  const Sequence* preempted = nullptr;
  const auto append = [](Sequence&, size_t) -> size_t { core::fail("wrong"); };
  EXPECT_ERROR(s.scheduler.plan(append, [&](Sequence& sequence) { preempted = &sequence; }), "wrong");
  EXPECT_EQ(preempted, &*young);
}

TEST(Scheduler, RejectsRequestsLargerThanTheCache) {
  Simulation s(3, {.max_rows = 50, .max_sequences = 2});
  TextRequest fits(text_of(90, 1), 7);
  TextRequest too_long(text_of(90, 1), 8);
  s.add(fits);
  EXPECT_ERROR(s.add(too_long), "97 positions need 4 blocks of the KV cache, which has 3");
}

TEST(Scheduler, JobsContinueOnlyIfNoneCanStart) {
  Simulation s(3, {.max_rows = 100, .max_sequences = 10});
  TextRequest a(text_of(32, 1), 10);
  TextRequest b(text_of(31, 2), 10);
  s.add(a);
  s.step();
  Sequence* jobs[] = {&*a};
  EXPECT_TRUE(s.scheduler.can_continue(jobs));
  s.add(b);
  EXPECT_FALSE(s.scheduler.can_continue(jobs));  // because b can start
  s.step();
  Sequence* both[] = {&*a, &*b};
  EXPECT_TRUE(s.scheduler.can_continue(both));
  s.step();
  EXPECT_FALSE(s.scheduler.can_continue(both));  // because b needs a second block
}

// The trace lists free KV blocks, preempted and started requests, and rows per request. Repeated steps are omitted.
TEST(Scheduler, TraceIsReadable) {
  Simulation s(5, {.max_rows = 64, .max_sequences = 3});
  TextRequest a(text_of(60, 1), 30);
  TextRequest b(text_of(40, 2), 40);
  TextRequest c(text_of(61, 1), 5);  // a's prompt plus one token, so it can reuse a's first KV block
  const auto name = [&](const Sequence* s) { return s->request() == a.id ? "a" : s->request() == b.id ? "b" : "c"; };
  std::string trace;
  std::string before;
  int repeated = 0;
  s.on_plan = [&](const Scheduler::Trace& plan) {
    std::string line = fmt::format("{} free", s.n_free);
    for (const Sequence* s : plan.preempted) line += fmt::format("; {} is preempted", name(s));
    for (const Sequence* s : plan.started) line += fmt::format("; {} starts, {} cached", name(s), s->n_cached());
    for (const auto& [s, n_rows] : plan.shares) line += fmt::format("; {} {}", name(s), n_rows);
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
            "  1: 5 free; a starts, 0 cached; b starts, 0 cached; a 60; b 4\n"
            "  2: 2 free; c starts, 32 cached; a 1; b 36; c 27\n"
            "  3: 0 free; a 1; b 1; c 2\n"
            "  4: 0 free; a 1; b 1; c 1\n"
            "  6: 0 free; c is preempted; a 1; b 1\n"
            "  7: 0 free; a 1; b 1\n"
            " 27: 0 free; b is preempted; a 1\n"
            " 28: 2 free; a 1\n"
            " 31: 5 free; b starts, 64 cached; b 1\n"
            " 32: 2 free; b 1\n"
            " 46: 5 free; c starts, 32 cached; c 32\n"
            " 47: 3 free; c 1\n");
}

TEST(Scheduler, PausedSequencesResumeBeforeYoungerOnes) {
  Simulation s(100, {.max_rows = 50, .max_sequences = 2});
  TextRequest a(text_of(5, 1), 4);
  TextRequest b(text_of(5, 2), 4);
  TextRequest c(text_of(5, 3), 4);
  TextRequest d(text_of(5, 4), 4);
  for (TextRequest* request : {&a, &b, &c, &d}) s.add(*request);
  s.step();
  s.pause(a);
  s.step();
  EXPECT_TRUE(c->runs()) << "a paused sequence takes no place";
  s.resume(a);
  ASSERT_EQ(s.scheduler.waiting().size(), 2U);
  EXPECT_EQ(s.scheduler.waiting().front(), &*a);
  while (!b.done()) s.step();
  s.step();
  EXPECT_TRUE(a->runs());
  EXPECT_EQ(s.scheduler.running().front(), &*a) << "it is older than c";
  while (!a.done() || !c.done() || !d.done()) s.step();
  EXPECT_EQ(a.texts.at(0), written_alone(text_of(5, 1), 4));
}

// A preempted beam search resumes one beam at a time. An older request may resume in the meantime, without enough
// memory to run with the first beam. The other beams must still start; otherwise no sequence could run.
TEST(Scheduler, BegunSearchesStartBeforeOlderRequestsThatResume) {
  Simulation s(5, {.max_rows = 100, .max_sequences = 8});
  TextRequest a(text_of(60, 1), 90);
  TextRequest b(text_of(40, 2), 24, 2, true);
  s.add(a);
  s.add(b);
  while (a->tokens().size() < 100) s.step();
  ASSERT_EQ(s.n_preempted, 2U) << "both beams of b";
  s.pause(a);
  s.step();
  ASSERT_EQ(s.scheduler.running().size(), 1U) << "b's first beam";
  s.resume(a);
  while (!a.done() || !b.done()) {
    const size_t before = s.n_rows;
    s.step();
    ASSERT_GT(s.n_rows, before) << "no sequence has a row";
  }
  EXPECT_EQ(a.texts.at(0), written_alone(text_of(60, 1), 90));
  EXPECT_EQ(b.texts, searched_alone(text_of(40, 2), 2, 24));
}

// Tests random arrivals, lengths, shared prefixes, choices, beam searches, pauses and cancellations.
TEST(Scheduler, RandomRequestsEndCorrectlyAndFreeBlocks) {
  constexpr int64_t kSteps = test::kSanitized ? 25'000 : 100'000;
  std::mt19937_64 random(1);
  const auto up_to = [&](size_t n) { return static_cast<size_t>(random() % n); };
  int64_t n_ended = 0;
  int64_t n_beams = 0;
  int64_t n_preempted = 0;
  int64_t n_refused = 0;
  int64_t n_paused = 0;
  int64_t n_shared = 0;
  for (int64_t steps = 0; steps < kSteps;) {
    const auto n_blocks = static_cast<int64_t>(4 + up_to(60));
    const size_t max_sequences = 1 + up_to(12);
    Simulation s(n_blocks, {.max_rows = 1 + up_to(100), .max_sequences = max_sequences});
    std::list<TextRequest> requests;
    const size_t n_requests = 20 + up_to(60);
    for (size_t n_come = 0; n_come < n_requests || !requests.empty();) {
      if (n_come < n_requests && up_to(4) == 0) {
        const bool search = up_to(4) == 0;
        const size_t n = up_to(3) == 0 || search ? 1 + up_to(std::min<size_t>(max_sequences, 5)) : 1;
        const size_t most = static_cast<size_t>(std::min<int64_t>(n_blocks, 8)) * 32;
        ++n_come;
        size_t n_prompt = 1 + up_to(most);
        if (!requests.empty() && up_to(4) == 0) n_prompt = std::min(requests.back().prompt.size(), most);
        std::vector<int32_t> prompt = text_of(n_prompt, static_cast<int32_t>(up_to(3)));
        if (up_to(3) == 0) {  // blocks with equal tokens, but different prefixes
          for (size_t i = 0; i < n_prompt; ++i) prompt[i] = static_cast<int32_t>(i % 32);
        }
        for (size_t i = up_to(n_prompt); i < n_prompt && up_to(2) == 0; ++i) prompt[i] = static_cast<int32_t>(up_to(2));
        TextRequest& request = requests.emplace_back(prompt, 1 + up_to(most + 1 - n_prompt), n, search,
                                                     static_cast<int32_t>(up_to(3)) - 1);
        try {
          s.add(request);
        } catch (const core::Error&) {  // thrown for searches whose beams can never fit into the cache
          ++n_refused;
          requests.pop_back();
        }
      }
      if (!requests.empty() && up_to(200) == 0) {
        const auto gone = std::next(requests.begin(), static_cast<std::ptrdiff_t>(up_to(requests.size())));
        s.remove(*gone);
        requests.erase(gone);
      }
      for (TextRequest& request : requests) {
        if (request.paused ? up_to(20) == 0 : request.width == 1 && up_to(300) == 0) {
          n_paused += request.paused ? 0 : 1;
          request.paused ? s.resume(request) : s.pause(request);
        }
      }
      const size_t n_ended_before = s.n_ended;
      const auto done = s.step();
      ASSERT_FALSE(HasFailure());
      const auto running = s.scheduler.running();
      const auto waiting = s.scheduler.waiting();
      ASSERT_LE(running.size(), max_sequences);
      for (const auto* sequence : running) n_shared += sequence->n_cached();
      ASSERT_TRUE(std::ranges::is_sorted(running, {}, &Sequence::key));
      ASSERT_TRUE(std::ranges::is_sorted(waiting, {}, &Sequence::key));
      // The number of blocks in use equals that of the distinct blocks in the tables of running sequences.
      std::map<BlockId, int> held;
      for (const auto* sequence : running) {
        for (const BlockId block : s.cache.table(sequence->id())) ++held[block];
      }
      ASSERT_EQ(static_cast<int64_t>(held.size()), s.cache.blocks_in_use());
      ASSERT_TRUE(waiting.empty() || s.n_ended > n_ended_before || !running.empty())
          << "no sequence runs, but " << waiting.size() << " wait";
      for (TextRequest* request : done) {
        const size_t n_more = request->n_more;
        if (request->width > 1) {
          ASSERT_EQ(request->texts, searched_alone(request->prompt, request->width, n_more));
          n_beams += request->texts.size();
        } else {
          ASSERT_EQ(request->texts.size(), request->sequences.size());
          for (const auto& text : request->texts) ASSERT_EQ(text, written_alone(request->prompt, n_more));
        }
        ++n_ended;
        requests.remove_if([&](const TextRequest& r) { return &r == request; });
      }
      ASSERT_LT(s.n_steps, 200'000) << "a request never ends";
    }
    EXPECT_EQ(s.cache.blocks_in_use(), 0);
    n_preempted += s.n_preempted;
    steps += s.n_steps;
  }
  EXPECT_GT(n_ended, kSteps / 100);
  EXPECT_GT(n_beams, kSteps / 200);
  EXPECT_GT(n_preempted, kSteps / 1'000);
  EXPECT_GT(n_paused, kSteps / 100);
  EXPECT_GT(n_refused, kSteps / 3'400);
  EXPECT_GT(n_shared, kSteps / 10);
}

}  // namespace
}  // namespace folio::infer
