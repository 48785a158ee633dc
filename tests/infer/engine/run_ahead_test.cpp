// Tests that results don't change if a step is issued before the tokens of the previous step are read. Each test also
// passes on machines that always wait for the tokens.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "infer/engine/engine.h"
#include "infer/forward/pass_through.h"
#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/machines.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

using test::EngineOn;
using test::MachineKind;
using test::random_tokens;
using test::rows_of;
using test::run;
using test::RunnerOn;
using test::same_bits;

class RunAhead : public ::testing::TestWithParam<MachineKind> {
 protected:
  [[nodiscard]] Request request(size_t n_prompt, int64_t max_tokens, uint64_t seed) const {
    Request r = test::drawing(random_tokens(n_prompt, seed, 37), max_tokens, seed);
    r.tokenizer = &tokenizer_;
    return r;
  }
  [[nodiscard]] std::vector<int32_t> drawn_by_host(const Request& r) const {
    return test::drawn_by_host(GetParam(), model_, r);
  }
  // Continues r, whose output was `output`, with token 7 and four drawn tokens. Expects the engine to reuse cached KV
  // blocks, and to draw the same tokens as without reuse.
  void expect_continues(Engine& engine, Request r, std::span<const int32_t> output) const {
    r.prompt.insert(r.prompt.end(), output.begin(), output.end());
    r.prompt.push_back(7);
    r.options.max_tokens = 4;
    const GenerateResult result = test::results_of(engine, r).front();
    EXPECT_EQ(result.tokens, drawn_by_host(r)) << "after " << output.size() << " tokens";
    EXPECT_EQ(result.n_cached, (r.prompt.size() - 1) / 32 * 32);
  }

  test::LetterTokenizer tokenizer_;
  core::StoredModel model_ = test::random_model(GetParam().model);  // vocabulary 37, context 100
};

INSTANTIATE_TEST_SUITE_P(Machines, RunAhead, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

// A stage that appends "b" to `events` when a step begins, and "w" when the step's tokens are waited for.
class WatchedStage final : public PassThroughStage {
 public:
  WatchedStage(std::unique_ptr<Stage> stage, std::string& events)
      : PassThroughStage(std::move(stage)), events_(events) {}

  bool begin(const Step& step) override {
    events_ += 'b';
    return PassThroughStage::begin(step);
  }
  std::span<const int32_t> wait_tokens(Ticket ticket) override {
    events_ += 'w';
    return PassThroughStage::wait_tokens(ticket);
  }

 private:
  std::string& events_;
};

class IssueOrder : public RunAhead {
 protected:
  // Runs the requests. Returns the order of events on the last layer's machine: "b" if a step begins, "w" if its tokens
  // are waited for. Sets several_, runs_ahead_ and draws_.
  std::string events(std::vector<Request> requests, const StepTime& time = {}) {
    auto machines = GetParam().make({.n_threads = 1});
    std::string events;
    test::WrappedMachine last(std::move(machines.back()), [&](std::unique_ptr<Stage> stage) {
      draws_ = stage->info().draws;
      return std::make_unique<WatchedStage>(std::move(stage), events);
    });
    machines.pop_back();
    std::vector<Placement> placements;
    if (!machines.empty()) placements.push_back({*machines.front(), {0, 1}});
    placements.push_back({last, {machines.empty() ? 0 : 1, 2}});
    Engine engine(model_, placements, GetParam().with_type({.n_sequences = 4}));
    engine.goodput().set_times(time, 0.0);
    for (int i = 0; i < 60; ++i) engine.goodput().acceptance().learn(4, 0);  // drafts are rarely right
    for (Request& r : requests) engine.add(std::move(r));
    while (engine.step()) continue;
    several_ = engine.runner().steps_in_flight() > 1;
    runs_ahead_ = machines.empty() && draws_;
    return events;
  }
  bool several_ = false;  ///< true if several steps may be in flight, with different sequences
  bool runs_ahead_ = false;
  bool draws_ = false;
};

INSTANTIATE_TEST_SUITE_P(Machines, IssueOrder, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

TEST_P(IssueOrder, IssuesAStepBeforeReadingThePreviousTokens) {
  const std::string got = events({request(5, 6, 1), request(40, 4, 2)});
  EXPECT_EQ(got, runs_ahead_ ? "bbwbwbwbwbww" : draws_ ? "bwbwbwbwbwbw" : several_ ? "bbbbbbbbbb" : "bbbbbb");
}

TEST_P(IssueOrder, WaitsIfARequestNeedsTheToken) {
  Request penalized = request(5, 3, 1);
  penalized.options.sampler.repetition_penalty = 1.1F;
  std::string got = events({penalized, request(4, 3, 2)});
  EXPECT_EQ(got, draws_ ? "bwbwbw" : several_ ? "bbbbbb" : "bbb");
  Request reported = request(5, 1, 1);
  reported.on_logits = [](std::span<const float>) {};
  got = events({reported, request(5, 3, 2)});
  EXPECT_EQ(got, runs_ahead_ ? "bwbbww" : draws_ ? "bwbwbw" : several_ ? "bbbb" : "bbb");
  Request sliding = request(5, 5, 1);
  sliding.options.context = 7;
  sliding.options.slide = true;
  got = events({sliding});
  EXPECT_EQ(got, runs_ahead_ ? "bbwwbbwbww" : draws_ ? "bwbwbwbwbw" : "bbbbb");
}

TEST_P(IssueOrder, RunsAheadIfDraftsDoNotPay) {
  Request r = request(5, 6, 1);
  r.options.speculate = 4;
  StepTime time;
  time.per_row = 100.0;
  const std::string got = events({r}, time);
  EXPECT_EQ(got, runs_ahead_ ? "bwbbwbwbwbww" : draws_ ? "bwbwbwbwbwbw" : "bbbbbb");
}

TEST_P(RunAhead, RowsOfUnreadTokensMatchRowsOfTokens) {
  RunnerOn runner(GetParam(), model_, {.n_threads = 1}, {.n_sequences = 4});
  Sampler sampler({.temperature = 1.0F, .seed = 3}, {});
  const auto text = random_tokens(6, 1, 37);
  std::vector<Row> rows = rows_of(runner.cache().add_sequence(), std::span(text).first(2), 0, false);
  for (const Row& row : rows_of(runner.cache().add_sequence(), std::span(text).last(4), 0, false)) rows.push_back(row);
  rows[1].sampler = rows[5].sampler = &sampler;
  rows[1].history = std::span(text).first(2);
  rows[5].history = std::span(text).last(4);
  const Issued first = runner.issue(rows);
  std::vector<Row> next{{.token = drawn_token(1), .sequence = rows[5].sequence, .position = 4},
                        {.token = drawn_token(0), .sequence = rows[0].sequence, .position = 2}};
  if (!runner.feeds()) {
    EXPECT_ERROR(static_cast<void>(runner.issue(next)), "token -2 is outside the vocabulary");
    return;
  }
  const Issued second = runner.issue(next);
  const StepOutput drew = runner.collect(first);
  const std::vector<int32_t> drawn(drew.tokens.begin(), drew.tokens.end());
  const StepOutput got = runner.collect(second);
  EXPECT_FALSE(runner.feeds()) << "it drew nothing";
  const std::vector<float> logits(got.logits.begin(), got.logits.end());
  for (const Row& row : next) runner.cache().truncate(row.sequence, row.position);
  next[0].token = drawn.at(1);
  next[1].token = drawn.at(0);
  EXPECT_TRUE(same_bits(logits, run(runner, next)));
}

// A sequence ends at an end token or stop string while its next row is in flight. This row must have no effect.
TEST_P(RunAhead, EndedSequencesLeaveNoRow) {
  const Request plain = request(23, 20, 6);
  const auto expected = drawn_by_host(plain);
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.n_sequences = 4});
  const auto concurrent = request(30, 20, 7);
  for (const bool by_text : {false, true}) {
    Request r = plain;
    if (by_text) {
      r.options.stops = {tokenizer_.token_bytes(expected[8]) + tokenizer_.token_bytes(expected[9])};
    } else {
      r.options.end_tokens = {expected[9]};
    }
    const RequestId other = engine.add(concurrent);
    const GenerateResult result = test::results_of(engine, r).front();
    EXPECT_EQ(result.finish_reason, FinishReason::Stop);
    ASSERT_LT(result.tokens.size(), 11U);
    EXPECT_TRUE(by_text || std::ranges::count(result.tokens, expected[9]) == 0) << "the end token is left out";
    EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), expected.begin()));
    EXPECT_EQ(engine.cache().blocks_in_use(), 0);
    EXPECT_EQ(engine.take(other).tokens, drawn_by_host(concurrent));
    r.options.stops.clear();
    r.options.end_tokens.clear();
    expect_continues(engine, r, result.tokens);
  }
}

TEST_P(RunAhead, CancellingKeepsComputedRows) {
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.n_sequences = 4});
  const Request plain = request(30, 20, 1);
  const auto expected = drawn_by_host(plain);
  for (const bool drop : {false, true}) {
    const Request& r = plain;
    const RequestId id = engine.add(r);
    const RequestId owner = engine.add(request(32, 20, 2));
    const Request concurrent = request(9, 8, 3);
    const RequestId other = engine.add(concurrent);
    const size_t n = engine.runner().steps_in_flight();  // a sequence has a row in only every n-th step
    for (size_t i = 0; i < 3 * n; ++i) EXPECT_TRUE(engine.step());
    if (drop) {
      engine.drop(id);
      engine.drop(owner);
      EXPECT_ERROR(engine.take(id), "unknown or has not ended");
    } else {
      engine.cancel(id);
      engine.cancel(owner);
      const GenerateResult result = engine.take(id);
      EXPECT_EQ(result.tokens.size(), 3U);
      EXPECT_EQ(result.finish_reason, FinishReason::Interrupted);
    }
    EXPECT_EQ(engine.cache().blocks_in_use(), 1);
    const Request late = request(33, 6, 4);  // reuses the released blocks
    const RequestId last = engine.add(late);
    while (engine.step()) continue;
    engine.cancel(last);  // has no effect, since the request has ended
    EXPECT_EQ(engine.take(other).tokens, drawn_by_host(concurrent));
    EXPECT_EQ(engine.take(last).tokens, drawn_by_host(late));
    expect_continues(engine, r, std::span(expected).first(3));
  }
}

TEST_P(RunAhead, RecoversAfterACallbackThrows) {
  const Request requests[] = {request(5, 6, 1), request(31, 7, 2), request(12, 3, 3)};
  for (const auto& [fail_at, in_text] : {std::pair{1, true}, {5, true}, {13, true}, {5, false}, {9, false}}) {
    EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.n_sequences = 4});
    int calls = 0;
    const auto call = [&, fail_at = fail_at] {
      if (++calls == fail_at) throw std::runtime_error("enough");
    };
    std::vector<std::string> shown(std::size(requests));
    std::vector<RequestId> ids;
    for (size_t i = 0; i < std::size(requests); ++i) {
      Request r = requests[i];
      r.on_text = [&, i, in_text = in_text](size_t, std::string_view text) {
        shown[i] += text;
        if (in_text) call();
      };
      if (!in_text) r.on_token = [&](size_t, int32_t, std::span<const float>) { call(); };
      ids.push_back(engine.add(r));
    }
    const int thrown = test::step_to_the_end(engine);
    EXPECT_EQ(thrown, 1);
    for (size_t i = 0; i < std::size(requests); ++i) {
      const auto expected = drawn_by_host(requests[i]);
      const GenerateResult result = engine.take(ids[i]);
      EXPECT_EQ(result.tokens, expected) << "request " << i << ", thrown in call " << fail_at;
      EXPECT_EQ(result.text, tokenizer_.decode(expected));
      if (in_text) {
        EXPECT_EQ(shown[i], result.text);
      }
    }
    EXPECT_EQ(engine.cache().blocks_in_use(), 0);
  }
}

// The embedding of a drawn token has a NaN, so the next draw fails, while another row of the sequence is already in
// flight. Every further step must report the same error.
TEST_P(RunAhead, FailedDrawsRepeatTheSameError) {
  const Request r = request(5, 20, 6);
  const auto expected = drawn_by_host(r);
  size_t at = 3;  // index of a drawn token that does not occur earlier
  const auto occurs = [&](const std::vector<int32_t>& tokens, size_t n) {
    return std::find(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n), expected[at]) !=
           tokens.begin() + static_cast<std::ptrdiff_t>(n);
  };
  while (at + 1 < expected.size() && (occurs(expected, at) || occurs(r.prompt, r.prompt.size()))) ++at;
  ASSERT_LT(at + 1, expected.size());
  auto weights = test::random_weights(model_.config, 7);
  weights.tensors.front()[static_cast<size_t>(expected[at] * model_.config.dim)] = std::nanf("");
  const auto damaged = test::model_from(weights);
  EngineOn engine(GetParam(), damaged, {.n_threads = 1}, {.n_sequences = 2});
  Request failing = r;
  std::string shown;
  failing.on_text = [&](size_t, std::string_view text) { shown += text; };
  ScopedRequests requests(engine);
  requests.add(failing);
  for (size_t i = 0; i <= at; ++i) EXPECT_TRUE(engine.step());
  for (int i = 0; i < 3; ++i) {
    EXPECT_ERROR(engine.step(), fmt::format("position {} are not finite", r.prompt.size() + at + 1));
  }
  EXPECT_EQ(shown, tokenizer_.decode({expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(at) + 1}));
}

TEST_P(RunAhead, AllowsInterleavedStepsOfOtherCallers) {
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.n_sequences = 4});
  const Request r = request(5, 9, 1);
  const Request concurrent = request(8, 9, 2);
  const RequestId id = engine.add(r);
  const RequestId other = engine.add(concurrent);
  const ScopedSequence kept(engine.cache());
  Sampler sampler({.temperature = 1.0F, .seed = 9}, {});
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(engine.step());
    for (int64_t n = 0; n < i % 3; ++n) {
      const Row row{.token = 3,
                    .sequence = kept.id(),
                    .position = engine.cache().length(kept.id()),
                    .wants_logits = false,
                    .sampler = &sampler};
      static_cast<void>(engine.runner().forward(std::span(&row, 1)));
    }
  }
  while (engine.step()) continue;
  EXPECT_EQ(engine.take(id).tokens, drawn_by_host(r));
  EXPECT_EQ(engine.take(other).tokens, drawn_by_host(concurrent));
}

TEST(InFlight, FillsTheMachinesStepsInFlight) {
  const auto model = test::random_model(test::small_shapes()[1].config);
  for (const size_t n_texts : {1, 2, 3, 8}) {
    test::RecordingMachine machine(std::make_unique<Cpu>(CpuOptions{.n_threads = 1}), 3);
    Engine engine(model, machine, {.n_sequences = 8});
    std::vector<size_t> shares;
    engine.watch([&](const StepReport& report) { shares.push_back(report.shares.size()); });
    for (size_t i = 0; i < n_texts; ++i) {
      engine.add({.prompt = random_tokens(5, i, 37), .options = {.max_tokens = 4}});
    }
    while (engine.step()) continue;
    EXPECT_EQ(machine.last_stage->most_in_flight, std::min<size_t>(n_texts, 3));
    EXPECT_EQ(shares.size(), 4 * std::min<size_t>(n_texts, 3));
    EXPECT_EQ(*std::ranges::max_element(shares), (n_texts + 2) / 3);
  }
}

// Sequences are divided equally among three steps in flight, and redistributed when some sequences end.
TEST(InFlight, RebalancesStepsWhenSequencesEnd) {
  const auto model = test::random_model(test::small_shapes()[1].config);
  test::RecordingMachine machine(std::make_unique<Cpu>(CpuOptions{.n_threads = 1}), 3);
  Engine engine(model, machine, {.n_sequences = 12});
  std::vector<size_t> shares;
  engine.watch([&](const StepReport& report) { shares.push_back(report.shares.size()); });
  for (size_t i = 0; i < 12; ++i) {  // the first three sequences end after two tokens
    engine.add({.prompt = random_tokens(5, i, 37), .options = {.max_tokens = i < 3 ? 2 : 20}});
  }
  for (int i = 0; i < 18; ++i) EXPECT_TRUE(engine.step());
  EXPECT_EQ(std::vector(shares.begin(), shares.begin() + 3), (std::vector<size_t>{4, 4, 4}));
  EXPECT_EQ(std::vector(shares.end() - 3, shares.end()), (std::vector<size_t>{3, 3, 3}));
  while (engine.step()) continue;
}

}  // namespace
}  // namespace folio::infer
