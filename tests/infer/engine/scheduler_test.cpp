// Laws of infer/engine/scheduler.h, on a made-up machine: where a real one writes keys and values it writes a hash of
// the text up to there, and checks before each row that the blocks hold those of the text so far. The next token is a
// function of that text.
#include "infer/engine/scheduler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

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

// What a made-up search goes on with: of two tokens behind each text the `width` that a hash likes best. Pairs of a
// text's index and a token.
std::vector<std::pair<size_t, int32_t>> followed(const std::vector<std::vector<int32_t>>& texts, size_t width) {
  std::vector<std::tuple<uint64_t, size_t, int32_t>> candidates;
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const int32_t token : {next_token(texts[i]), next_token(texts[i]) ^ 1}) {
      const uint64_t hash = std::accumulate(texts[i].begin(), texts[i].end(), kOfNothing, with_token);
      candidates.emplace_back(with_token(hash, token) * 0x9E3779B97F4A7C15ULL >> 20U, i, token);
    }
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<std::pair<size_t, int32_t>> next;
  for (size_t i = 0; i < std::min(width, candidates.size()); ++i) {
    next.emplace_back(std::get<1>(candidates[i]), std::get<2>(candidates[i]));
  }
  return next;
}

std::vector<std::vector<int32_t>> searched_alone(const std::vector<int32_t>& prompt, size_t width, size_t n_more) {
  std::vector<std::vector<int32_t>> texts = {prompt};
  for (size_t i = 0; i < n_more; ++i) {
    std::vector<std::vector<int32_t>> next;
    for (const auto& [from, token] : followed(texts, width)) {
      next.push_back(texts[from]);
      next.back().push_back(token);
    }
    texts = next;
  }
  return texts;
}

class TextBranch final : public ScheduledBranch {
 public:
  TextBranch(RequestId request, size_t index, size_t width, std::vector<int32_t> prompt, size_t n_more, int32_t adapter)
      : ScheduledBranch(request, index),
        text(std::move(prompt)),
        n_prompt(text.size()),
        n_all(n_prompt + n_more),
        width_(width),
        adapter_(adapter) {}
  [[nodiscard]] std::span<const int32_t> tokens() const { return text; }
  [[nodiscard]] size_t shareable() const { return text.size() - 1; }
  [[nodiscard]] int64_t max_positions() const { return static_cast<int64_t>(n_all) - 1; }
  [[nodiscard]] size_t n_together() const { return width_; }
  [[nodiscard]] size_t n_drafts() const { return 0; }
  [[nodiscard]] int32_t adapter() const { return adapter_; }
  [[nodiscard]] bool alone() const { return false; }
  [[nodiscard]] bool done() const { return text.size() == n_all; }

  std::vector<int32_t> text;
  size_t n_prompt;
  size_t n_all;
  bool computed = false;  ///< of a search: what comes next is known

 private:
  size_t width_;
  int32_t adapter_;
};

// A request: some choices, or one search.
struct TextRequest {
  static inline RequestId n_made = 0;

  TextRequest(const std::vector<int32_t>& prompt, size_t n_more, size_t n = 1, bool search = false,
              int32_t adapter = kNoAdapter)
      : id(n_made++), width(search ? n : 1) {
    for (size_t i = 0; i < n; ++i) branches.emplace_back(id, i, width, prompt, n_more, adapter);
    for (size_t i = 0; i < (search ? 1 : n); ++i) live.push_back(i);
  }
  TextRequest(const TextRequest&) = delete;
  TextRequest& operator=(const TextRequest&) = delete;

  [[nodiscard]] bool done() const { return live.empty(); }
  // For those of one branch.
  TextBranch& operator*() { return branches.front(); }
  TextBranch* operator->() { return &branches.front(); }

  RequestId id;
  size_t width;
  std::deque<TextBranch> branches;
  std::vector<size_t> live;                 ///< of a search: in its order; of choices those that go on
  std::vector<std::vector<int32_t>> texts;  ///< of those that have ended
};

// A scheduler with its cache and the made-up machine.
class Simulation {
 public:
  Simulation(int64_t n_blocks, const SchedulerLimits& limits)
      : cache(n_blocks), scheduler(cache, limits), max_rows_(limits.max_rows) {}

  void add(TextRequest& request) {
    for (const size_t i : request.live) scheduler.add(request.branches[i]);
    requests_[request.id] = &request;
  }
  void remove(TextRequest& request) {
    for (TextBranch& branch : request.branches) scheduler.remove(branch);
    requests_.erase(request.id);
  }

  // Plans a step and runs it. The requests that are done are removed, and returned.
  std::vector<TextRequest*> step() {
    ++n_steps;
    const Scheduler<TextBranch>::Trace& trace = scheduler.plan([](TextBranch&, size_t most) { return most; });
    if (on_plan) on_plan(trace);
    for (TextBranch* branch : trace.preempted) branch->computed = false;
    size_t rows = 0;
    for (const auto& part : trace.shares) {
      rows += part.n_rows;
      cache.reserve(part.branch->sequence(), static_cast<int64_t>(part.n_rows));
    }
    EXPECT_LE(rows, max_rows_);
    EXPECT_LE(cache.copies().size(), trace.shares.size()) << "at most a block of each branch is copied";
    for (const BlockCopy& copy : cache.copies()) content_[copy.to] = content_[copy.from];
    for (const auto& part : trace.shares) run(*part.branch, part.n_rows);
    cache.commit();
    for (const auto& part : trace.shares) {
      const auto n = static_cast<size_t>(cache.length(part.branch->sequence()));
      cache.remember(part.branch->sequence(), part.branch->tokens().first(n));
    }
    n_rows += rows;
    n_preempted += trace.preempted.size();
    std::vector<TextRequest*> done;
    for (const auto& [id, request] : requests_) {
      go_on(*request);
      if (request->done()) done.push_back(request);
    }
    for (TextRequest* request : done) remove(*request);
    return done;
  }

  BlockManager cache;
  Scheduler<TextBranch> scheduler;
  int64_t n_steps = 0;
  size_t n_rows = 0;
  size_t n_preempted = 0;
  size_t n_ended = 0;  ///< branches
  std::function<void(const Scheduler<TextBranch>::Trace&)> on_plan{};

 private:
  // Writes the rows into their places.
  void run(TextBranch& branch, size_t n) {
    const auto table = cache.table(branch.sequence());
    const auto length = static_cast<size_t>(cache.length(branch.sequence()));
    uint64_t hash = with_token(kOfNothing, branch.adapter());
    for (size_t i = 0; i < length + n; ++i) {
      auto& block = content_[table[i / kWhole]];
      block.resize(kWhole, 0);
      hash = with_token(hash, branch.text[i]);
      if (i >= length) block[i % kWhole] = hash;
      if (block[i % kWhole] != hash) {
        ADD_FAILURE() << "request " << branch.request() << ": position " << i << " of block " << table[i / kWhole]
                      << " holds another text";
        return;
      }
    }
    branch.computed = length + n == branch.text.size();
  }

  void go_on(TextRequest& request) {
    if (request.width > 1) return search(request);
    for (TextBranch& branch : request.branches) {
      if (!std::exchange(branch.computed, false)) continue;
      branch.text.push_back(next_token(branch.text));
      if (!branch.done()) continue;
      request.texts.push_back(branch.text);
      scheduler.remove(branch);
      ++n_ended;
      std::erase(request.live, branch.index());
    }
  }

  // When all branches know what comes next.
  void search(TextRequest& request) {
    std::vector<std::vector<int32_t>> texts;
    for (const size_t i : request.live) {
      if (!request.branches[i].computed) return;
      texts.push_back(request.branches[i].text);
    }
    std::vector<size_t> idle;
    for (size_t i = 0; i < request.branches.size(); ++i) {
      if (std::ranges::find(request.live, i) == request.live.end()) idle.push_back(i);
    }
    const auto next = followed(texts, request.width);
    std::vector<size_t> places(next.size(), SIZE_MAX);
    std::vector<bool> kept(texts.size(), false);
    for (size_t i = 0; i < next.size(); ++i) {
      if (!kept[next[i].first]) places[i] = request.live[next[i].first];
      kept[next[i].first] = true;
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      if (!kept[i]) idle.push_back(request.live[i]);
    }
    for (size_t i = 0; i < next.size(); ++i) {
      if (places[i] != SIZE_MAX) continue;
      places[i] = idle.back();
      idle.pop_back();
      scheduler.fork(request.branches[places[i]], request.branches[request.live[next[i].first]]);
    }
    for (const size_t i : idle) scheduler.remove(request.branches[i]);
    for (size_t i = 0; i < next.size(); ++i) {
      TextBranch& branch = request.branches[places[i]];
      branch.text = texts[next[i].first];
      branch.text.push_back(next[i].second);
      branch.computed = false;
    }
    request.live = places;
    if (!request.branches[places[0]].done()) return;
    for (const size_t i : places) request.texts.push_back(request.branches[i].text);
    n_ended += std::exchange(request.live, {}).size();
  }

  static constexpr auto kWhole = static_cast<size_t>(kBlockPositions);
  std::map<BlockId, std::vector<uint64_t>> content_;
  std::map<RequestId, TextRequest*> requests_;
  size_t max_rows_;
};

std::vector<int32_t> text_of(size_t n, int32_t seed) {
  std::vector<int32_t> text(n);
  std::iota(text.begin(), text.end(), 10000 * seed);
  return text;
}

TEST(Scheduler, RunningRequestsComeFirstAndTheRestIsFilledWithPrompts) {
  Simulation s(100, {.max_rows = 50, .max_sequences = 10});
  TextRequest a(text_of(20, 1), 100);
  TextRequest b(text_of(60, 2), 100);
  TextRequest c(text_of(10, 3), 100);
  for (TextRequest* request : {&a, &b, &c}) s.add(*request);
  const auto rows = [&] {
    std::vector<size_t> n;
    for (const auto& part : s.scheduler.plan([](TextBranch&, size_t most) { return most; }).shares) {
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
  std::list<TextRequest> jobs;
  for (int32_t i = 0; i < 5; ++i) s.add(jobs.emplace_back(text_of(5, i), 3));
  s.step();
  EXPECT_EQ(s.scheduler.running().size(), 2U);
  EXPECT_EQ(s.scheduler.waiting().size(), 3U);
}

TEST(Scheduler, TheYoungestIsPreemptedWhenBlocksRunOut) {
  Simulation s(4, {.max_rows = 200, .max_sequences = 10});
  TextRequest old(text_of(32, 1), 60);
  TextRequest young(text_of(32, 2), 60);
  s.add(old);
  s.add(young);
  while (!old.done() || !young.done()) {
    s.step();
    if (!old.done()) {
      EXPECT_TRUE(old->runs());
    }
    ASSERT_LT(s.n_steps, 1000);
  }
  EXPECT_GT(s.n_preempted, 0U);
  EXPECT_EQ(old.texts.at(0), written_alone(text_of(32, 1), 60));
  EXPECT_EQ(young.texts.at(0), written_alone(text_of(32, 2), 60));
}

TEST(Scheduler, AKnownPrefixIsNotComputedAgain) {
  Simulation s(100, {.max_rows = 500, .max_sequences = 10});
  TextRequest first(text_of(100, 1), 2);
  s.add(first);
  while (!first.done()) s.step();
  EXPECT_EQ(s.cache.blocks_in_use(), 0);
  const size_t rows = s.n_rows;
  std::vector<int32_t> longer = text_of(100, 1);
  longer.push_back(7);
  TextRequest second(longer, 1);
  s.add(second);
  int64_t cached = 0;
  s.on_plan = [&](const auto&) { cached = second->n_cached(); };
  s.step();
  EXPECT_EQ(cached, 96);
  EXPECT_EQ(s.n_rows - rows, 5U);
}

TEST(Scheduler, WhatTwoBeginWithIsComputedOnce) {
  Simulation s(100, {.max_rows = 40, .max_sequences = 10});
  TextRequest choices(text_of(100, 1), 5, 3);
  s.add(choices);
  while (!choices.done()) s.step();
  EXPECT_EQ(s.n_rows, 100U + 4 + 1 + 4 + 1 + 4) << "a row of the prompt each, and the tokens but for the last";
  for (const auto& text : choices.texts) EXPECT_EQ(text, written_alone(text_of(100, 1), 5));
  // The older one may be gone before the younger starts.
  TextRequest two(text_of(100, 2), 3, 2);
  s.add(two);
  s.step();
  s.scheduler.remove(two.branches[0]);
  while (!two.branches[1].done()) s.step();
  EXPECT_EQ(two.texts.at(0), written_alone(text_of(100, 2), 3));
}

TEST(Scheduler, BeamsShareWhatTheyHaveInCommon) {
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

// Two searches in a cache with room for one and a half.
TEST(Scheduler, BeamsArePreemptedAndStartTogether) {
  Simulation s(21, {.max_rows = 200, .max_sequences = 8});
  TextRequest old(text_of(40, 1), 100, 4, true);
  TextRequest young(text_of(40, 2), 100, 4, true);
  s.add(old);
  s.add(young);
  s.on_plan = [&](const Scheduler<TextBranch>::Trace& trace) {
    if (!trace.preempted.empty()) {
      EXPECT_TRUE(std::ranges::none_of(young.branches, [](const TextBranch& b) { return b.runs(); }));
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
  EXPECT_EQ(s.scheduler.waiting().size(), 1U) << "the beam has the places of those to come";
  while (!beams.done()) s.step();
  s.step();
  EXPECT_TRUE(next->runs());
  TextRequest too_many(text_of(5, 3), 3, 6, true);
  EXPECT_ERROR(s.add(too_many), "6 beams are more than the 5 sequences that may run");
  TextRequest too_long(text_of(64, 3), 1600, 2, true);
  EXPECT_ERROR(s.add(too_long), "2 beams of 1663 positions need 104 blocks");
}

TEST(Scheduler, WhatCanNeverFitIsRefusedAtOnce) {
  Simulation s(3, {.max_rows = 50, .max_sequences = 2});
  TextRequest fits(text_of(90, 1), 7);
  TextRequest too_long(text_of(90, 1), 8);
  s.add(fits);
  EXPECT_ERROR(s.add(too_long), "97 positions need 4 blocks of the KV cache, which has 3");
}

TEST(Scheduler, JobsGoOnOnlyWhereBlocksAreLeftAndNobodyCanStart) {
  Simulation s(3, {.max_rows = 100, .max_sequences = 10});
  TextRequest a(text_of(32, 1), 10);
  TextRequest b(text_of(31, 2), 10);
  s.add(a);
  s.step();
  TextBranch* jobs[] = {&*a};
  EXPECT_TRUE(s.scheduler.can_go_on(jobs));
  s.add(b);
  EXPECT_FALSE(s.scheduler.can_go_on(jobs));  // b can start
  s.step();
  TextBranch* both[] = {&*a, &*b};
  EXPECT_TRUE(s.scheduler.can_go_on(both));
  s.step();
  EXPECT_FALSE(s.scheduler.can_go_on(both));  // b needs a second block
}

// Steps that are like the one before are left out.
TEST(Scheduler, ItsTraceCanBeRead) {
  Simulation s(5, {.max_rows = 64, .max_sequences = 3});
  TextRequest a(text_of(60, 1), 30);
  TextRequest b(text_of(40, 2), 40);
  TextRequest c(text_of(61, 1), 5);  // begins as a does
  const auto name = [&](const TextBranch& branch) { return &branch == &*a ? "a" : &branch == &*b ? "b" : "c"; };
  std::string trace;
  std::string before;
  int repeated = 0;
  s.on_plan = [&](const Scheduler<TextBranch>::Trace& plan) {
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

// Random arrivals, lengths, shared beginnings, choices, searches and cancellations.
TEST(Scheduler, EveryRequestEndsWithItsOwnTextsAndNoBlockIsLost) {
  std::mt19937_64 random(1);
  const auto up_to = [&](size_t n) { return static_cast<size_t>(random() % n); };
  size_t n_ended = 0;
  size_t n_beams = 0;
  size_t n_preempted = 0;
  int64_t n_shared = 0;
  for (int64_t steps = 0; steps < 100'000;) {
    const auto n_blocks = static_cast<int64_t>(4 + up_to(60));
    const size_t max_sequences = 1 + up_to(12);
    Simulation s(n_blocks, {.max_rows = 1 + up_to(100), .max_sequences = max_sequences});
    std::list<TextRequest> requests;
    std::map<const TextRequest*, std::vector<int32_t>> prompts;
    const size_t n_requests = 20 + up_to(60);
    for (size_t n_come = 0; n_come < n_requests || !requests.empty();) {
      if (n_come < n_requests && up_to(4) == 0) {
        const bool search = up_to(4) == 0;
        const size_t n = up_to(3) == 0 || search ? 1 + up_to(std::min<size_t>(max_sequences, 5)) : 1;
        const int64_t room = search && n > 1 ? n_blocks / static_cast<int64_t>(n) - 1 : n_blocks;
        const size_t most = static_cast<size_t>(std::clamp<int64_t>(room, 0, 8)) * 32;
        ++n_come;
        if (most == 0) continue;
        size_t n_prompt = 1 + up_to(most);
        if (!requests.empty() && up_to(4) == 0) n_prompt = std::min(requests.back()->n_prompt, most);
        std::vector<int32_t> prompt = text_of(n_prompt, static_cast<int32_t>(up_to(3)));
        if (up_to(3) == 0) {  // equal blocks behind different beginnings
          for (size_t i = 0; i < n_prompt; ++i) prompt[i] = static_cast<int32_t>(i % 32);
        }
        for (size_t i = up_to(n_prompt); i < n_prompt && up_to(2) == 0; ++i) prompt[i] = static_cast<int32_t>(up_to(2));
        TextRequest& request = requests.emplace_back(prompt, 1 + up_to(most + 1 - n_prompt), n, search,
                                                     static_cast<int32_t>(up_to(3)) - 1);
        prompts[&request] = prompt;
        s.add(request);
      }
      if (!requests.empty() && up_to(200) == 0) {
        const auto gone = std::next(requests.begin(), static_cast<std::ptrdiff_t>(up_to(requests.size())));
        s.remove(*gone);
        requests.erase(gone);
      }
      const size_t n_ended_before = s.n_ended;
      const auto done = s.step();
      ASSERT_FALSE(HasFailure());
      const auto running = s.scheduler.running();
      const auto waiting = s.scheduler.waiting();
      ASSERT_LE(running.size(), max_sequences);
      for (const auto* branch : running) n_shared += branch->n_cached();
      // Those that run came before those that wait, and each in their order.
      std::vector<std::pair<RequestId, size_t>> order;
      for (const auto* branch : running) order.emplace_back(branch->request(), branch->index());
      for (const auto* branch : waiting) order.emplace_back(branch->request(), branch->index());
      ASSERT_TRUE(std::is_sorted(order.begin(), order.end()));
      // Every block is held as often as tables have it, and the others are free.
      std::map<BlockId, int> held;
      for (const auto* branch : running) {
        for (const BlockId block : s.cache.table(branch->sequence())) ++held[block];
      }
      ASSERT_EQ(static_cast<int64_t>(held.size()), s.cache.blocks_in_use());
      ASSERT_TRUE(requests.empty() || s.n_ended > n_ended_before || !running.empty())
          << "nobody runs, and " << requests.size() << " wait";
      for (TextRequest* request : done) {
        const size_t n_more = (*request)->n_all - (*request)->n_prompt;
        if (request->width > 1) {
          ASSERT_EQ(request->texts, searched_alone(prompts.at(request), request->width, n_more));
          n_beams += request->texts.size();
        } else {
          ASSERT_EQ(request->texts.size(), request->branches.size());
          for (const auto& text : request->texts) ASSERT_EQ(text, written_alone(prompts.at(request), n_more));
        }
        ++n_ended;
        requests.remove_if([&](const TextRequest& r) { return &r == request; });
      }
      ASSERT_LT(s.n_steps, 200'000) << "somebody waits for ever";
    }
    EXPECT_EQ(s.cache.blocks_in_use(), 0);
    n_preempted += s.n_preempted;
    steps += s.n_steps;
  }
  EXPECT_GT(n_ended, 1'000U);
  EXPECT_GT(n_beams, 500U);
  EXPECT_GT(n_preempted, 100U);
  EXPECT_GT(n_shared, 10'000);
}

}  // namespace
}  // namespace folio::infer
