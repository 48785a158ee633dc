// Tests infer/engine/engine.h: a request's result doesn't depend on other requests or on how its rows are divided into
// steps, each request gets the logits that it asked for, a failed step is repeated, stop words and bad words may have
// several tokens, and a prompt reuses the cached tail of a finished sequence. Runs on all kinds of machines.
#include "infer/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/engine/texts.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

using test::drawing;
using test::EngineOn;
using test::results_of;
using test::rows_of;
using test::run;
using test::same_bits;
using Tokens = std::vector<int32_t>;

bool contains(const Tokens& text, const Tokens& word) {
  return std::search(text.begin(), text.end(), word.begin(), word.end()) != text.end();
}

Tokens joined(const Tokens& a, const Tokens& b) {
  Tokens both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

class EngineTest : public test::Texts {
 protected:
  [[nodiscard]] std::vector<float> logits_alone(std::span<const int32_t> text) const {
    return test::logits_on(GetParam(), model_, text);
  }
  [[nodiscard]] std::vector<int32_t> drawn_alone(const Request& request) const { return alone(request).front().tokens; }
};

INSTANTIATE_TEST_SUITE_P(Machines, EngineTest, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

// Some machines draw tokens themselves. Their tokens must equal those that the host draws from the machine's logits.
TEST_P(EngineTest, TokensMatchTheHost) {
  const SamplerOptions options[] = {
      {.temperature = 0.0F},
      {.temperature = 1.0F, .top_p = 1.0F, .seed = 3},
      {.temperature = 1.5F, .top_k = 5, .top_p = 0.9F, .min_p = 0.05F, .seed = 4},
      {.temperature = 0.0F, .repetition_penalty = 1.5F, .repeat_last_n = 4},
      {.temperature = 1.0F, .repetition_penalty = 2.0F, .repeat_last_n = 1000, .seed = 5},
      {.temperature = 1.0F, .repetition_penalty = 0.5F, .repeat_last_n = 0, .seed = 1ULL << 63U},
      {.temperature = 0.0F, .presence_penalty = 2.0F, .logit_bias = {{7, 3.0F}, {9, -50.0F}}},
      {.temperature = 1.0F, .repetition_penalty = 1.1F, .frequency_penalty = -0.5F, .seed = 6},
      {.temperature = 1.0F, .bad_words = {{4}, {6, 7}}, .seed = 7}};
  const test::LetterTokenizer tokenizer;
  const auto requests = [&](std::vector<float>& logits) {
    std::vector<Request> all;
    for (const SamplerOptions& o : options) {
      for (const size_t n : {1U, 30U, 300U}) {
        Request r{.prompt = tokens(n, n), .options = {.max_tokens = 8, .sampler = o}};
        if (n == 30) r.tokenizer = &tokenizer;
        if (n != 300) {  // reports the logits of all prompt rows; the last row's are also used to draw a token
          r.on_logits = [&](std::span<const float> some) { logits.insert(logits.end(), some.begin(), some.end()); };
        }
        all.push_back(std::move(r));
      }
    }
    return all;
  };
  std::vector<float> logits;
  std::vector<float> expected_logits;
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 7000});
  ScopedRequests running(engine);
  for (Request& r : requests(logits)) running.add(std::move(r));
  while (engine.step()) continue;
  std::vector<RequestId> ids(running.ids().begin(), running.ids().end());
  for (Request& r : requests(expected_logits)) {
    const auto drawn = test::drawn_by_host(GetParam(), model_, r);
    EXPECT_EQ(engine.take(ids.front()).tokens, drawn) << r.prompt.size() << " tokens before";
    ids.erase(ids.begin());
  }
  std::ranges::sort(logits);  // rows of the requests arrive interleaved
  std::ranges::sort(expected_logits);
  EXPECT_TRUE(same_bits(logits, expected_logits)) << "no draw changes the logits that are reported";
}

TEST_P(EngineTest, RequestsDraftByTheAcceptanceOfEarlierOnes) {
  Request r{.prompt = tokens(10), .options = {.max_tokens = 100, .sampler = {.temperature = 0.0F}, .speculate = 10}};
  r.options.sampler.logit_bias = {{7, 100.0F}};  // makes the model generate token 7 every time
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 200});
  StepTime time;
  time.fixed = 1.0;
  time.per_row = 1.2;  // below an acceptance rate of 0.55, a draft token costs more time than it saves
  engine.goodput().set_times(time, 0.0);
  for (int i = 0; i < 60; ++i) engine.goodput().acceptance().learn(10, 0);
  EXPECT_EQ(results_of(engine, r).front().tokens, std::vector<int32_t>(100, 7));
  const uint64_t without = engine.statistics().steps;
  EXPECT_GE(without, 100U);
  for (int i = 0; i < 60; ++i) engine.goodput().acceptance().learn(10, 10);
  EXPECT_EQ(results_of(engine, r).front().tokens, std::vector<int32_t>(100, 7));
  EXPECT_LT(engine.statistics().steps - without, 30U);
}

TEST_P(EngineTest, CallbacksGetTheLogitsOfEachToken) {
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 2000});
  Request r = drawing(tokens(40, 1), 12);
  r.options.sampler.logit_bias = {{3, 5.0F}};
  r.wants_token_logits = true;
  std::vector<int32_t> text = r.prompt;
  std::vector<float> logits;
  r.on_token = [&](size_t, int32_t token, std::span<const float> some) {
    text.push_back(token);
    logits.insert(logits.end(), some.begin(), some.end());
  };
  const RequestId other = engine.add(drawing(tokens(9, 2), 20));
  const auto drawn = results_of(engine, r).front().tokens;
  EXPECT_EQ(std::vector<int32_t>(text.begin() + 40, text.end()), drawn);
  text.pop_back();
  const auto all = logits_alone(text);
  EXPECT_TRUE(same_bits(logits, std::vector<float>(all.end() - 12 * 37, all.end())));
  EXPECT_EQ(engine.take(other).tokens, drawn_alone(drawing(tokens(9, 2), 20)));
}

TEST_P(EngineTest, EmptyRequestsComputeNothing) {
  EngineOn engine(GetParam(), model_);
  const RequestId id = engine.add({.prompt = tokens(5)});
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(engine.take(id).finish_reason, FinishReason::Length);
  EXPECT_FALSE(engine.step());
  EXPECT_ERROR(engine.take(id), "unknown or has not ended");
}

// The prompt is reported even if the output ends before its first token, here since the prompt fills the context.
TEST_P(EngineTest, EmptyOutputsReportTheirPrompt) {
  EngineOn engine(GetParam(), model_);
  Request full = drawing(tokens(40), 5);
  full.options.context = 40;
  full.options.n = 2;
  size_t n = 0;
  std::vector<size_t> n_at_end;
  full.on_log_probs = [&](std::span<const double> some) { n += some.size(); };
  full.on_end = [&](size_t, const GenerateResult&) { n_at_end.push_back(n); };
  for (const GenerateResult& result : results_of(engine, full)) {
    EXPECT_TRUE(result.tokens.empty());
    EXPECT_EQ(result.finish_reason, FinishReason::Length);
  }
  EXPECT_EQ(n_at_end, (std::vector<size_t>{39, 39})) << "each choice ends after the report";
  const RequestId cancelled = engine.add(full);
  engine.cancel(cancelled);
  EXPECT_EQ(engine.take_all(cancelled).back().finish_reason, FinishReason::Interrupted);
  EXPECT_EQ(n_at_end.size(), 4U);
}

TEST_P(EngineTest, ObserversSeeOnlyTheirRequest) {
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 3000});
  const auto text = tokens(300, 3);
  std::vector<size_t> rows;
  std::vector<float> seen;
  Request watched{.prompt = text};
  watched.observer = [&](const std::string& name, std::span<const float> values, size_t n_rows) {
    if (name == "embedding") rows.push_back(n_rows);
    if (name == "logits") seen.insert(seen.end(), values.begin(), values.end());
    return false;
  };
  watched.on_logits = [](std::span<const float>) {};
  const Request other = drawing(tokens(20, 4), 40);
  const RequestId before = engine.add(other);
  const RequestId id = engine.add(watched);
  const RequestId after = engine.add(other);
  while (engine.step()) continue;
  EXPECT_EQ(rows, (std::vector<size_t>{256, 44}));
  EXPECT_TRUE(same_bits(seen, logits_alone(text)));
  static_cast<void>(engine.take(id));
  EXPECT_EQ(engine.take(before).tokens, engine.take(after).tokens);
  watched.observer = [](const std::string&, std::span<const float>, size_t) -> bool { core::fail("enough"); };
  const RequestId failing = engine.add(watched);
  EXPECT_ERROR(engine.step(), "enough");
  EXPECT_EQ(engine.failed(), failing);
}

// A paused request computes some rows of its prompt again, without its observer.
TEST_P(EngineTest, ObserversSeeEachRowOnce) {
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 1000}, {.max_rows = 50});
  const auto text = tokens(120, 3);
  size_t n_seen = 0;
  std::vector<float> logits;
  const auto backlog = std::make_shared<Backlog>(1);
  Request watched{.prompt = text};
  watched.observer = [&](const std::string& name, std::span<const float>, size_t n_rows) {
    if (name == "embedding") n_seen += n_rows;
    return false;
  };
  watched.on_logits = [&](std::span<const float> rows) { logits.insert(logits.end(), rows.begin(), rows.end()); };
  watched.backlog = backlog;
  engine.add(watched);
  EXPECT_TRUE(engine.step());
  backlog->add(1);
  while (engine.step()) continue;
  static_cast<void>(backlog->remove(1));
  while (engine.step()) continue;
  EXPECT_GT(engine.statistics().rows, text.size());
  EXPECT_EQ(n_seen, text.size());
  EXPECT_TRUE(same_bits(logits, logits_alone(text)));
}

TEST_P(EngineTest, CachedPrefixesAreNotRecomputed) {
  EngineOn engine(GetParam(), model_, {.n_threads = 2}, {.max_positions = 1000});
  const auto shared = tokens(70, 1);
  for (const size_t n : {0U, 1U, 27U, 60U}) {
    std::vector<int32_t> prompt(shared.begin(), shared.end());
    for (const int32_t token : tokens(n, n)) prompt.push_back(token);
    for (const int64_t again : {0, 1}) {
      const GenerateResult result = results_of(engine, drawing(prompt, 9, n)).front();
      EXPECT_EQ(result.tokens, drawn_alone(drawing(prompt, 9, n))) << n << " more tokens";
      const size_t known = again == 1 ? prompt.size() - 1 : n == 0 ? 0 : 70;
      EXPECT_EQ(result.n_cached, known / 32 * 32);
    }
  }
  // A request for log-probabilities computes all rows of its prompt, even those whose KV blocks are cached.
  std::vector<double> log_probs;
  engine.add({.prompt = shared, .on_log_probs = [&](std::span<const double> some) {
                log_probs.insert(log_probs.end(), some.begin(), some.end());
              }});
  while (engine.step()) continue;
  EXPECT_EQ(log_probs.size(), 69U);
}

TEST_P(EngineTest, PausesRecomputeNoReportedPrompt) {
  const auto n_rows = [&](bool reports) {
    EngineOn engine(GetParam(), model_);
    const auto backlog = std::make_shared<Backlog>(1);
    Request r = drawing(tokens(40), 40);
    r.backlog = backlog;
    r.on_token = [&](size_t, int32_t, std::span<const float>) { backlog->add(1); };
    if (reports) r.on_log_probs = [](std::span<const double>) {};
    for (const RequestId id = engine.add(r); !engine.has_ended(id);) {
      while (engine.step()) continue;
      static_cast<void>(backlog->remove(backlog->n_bytes()));
    }
    return engine.statistics().rows;
  };
  EXPECT_LE(n_rows(true), n_rows(false));
}

TEST_P(EngineTest, ChoicesShareTheirPrompt) {
  for (const size_t n : {32U, 300U}) {
    EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 3000});
    Request four = drawing(tokens(n, 1), 20, 5);
    four.options.n = 4;
    const auto results = results_of(engine, four);
    ASSERT_EQ(results.size(), 4U);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(results[i].tokens, drawn_alone(drawing(tokens(n, 1), 20, choice_seed(5, i)))) << "choice " << i;
    }
    EXPECT_LE(engine.statistics().rows, n + 3 + 4 * 20) << "the last row of the prompt for each";
    EXPECT_EQ(engine.cache().blocks_in_use(), 0);
  }
}

TEST_P(EngineTest, RejectsStepsIfHeldSequencesFillTheCache) {
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 64});
  const auto kept = engine.cache().add_sequence();
  run(engine.runner(), rows_of(kept, tokens(40), 0, false));
  const RequestId id = engine.add(drawing(tokens(3), 2));
  EXPECT_ERROR(engine.step(), "full");
  engine.cache().release(kept);
  while (engine.step()) continue;
  EXPECT_EQ(engine.take(id).tokens, drawn_alone(drawing(tokens(3), 2)));
}

// If all tokens of a request are suppressed, each of its steps fails. Earlier requests still finish. Later ones wait
// until the failing request is removed.
TEST_P(EngineTest, UndrawableTokensFailTheStep) {
  test::LetterTokenizer mute;
  mute.suppressed.resize(37);
  std::iota(mute.suppressed.begin(), mute.suppressed.end(), 0);
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 2000});
  const RequestId before = engine.add(drawing(tokens(9, 1), 3, 1));
  Request nothing = drawing(tokens(5), 5);
  nothing.tokenizer = &mute;
  const RequestId failing = engine.add(nothing);
  const RequestId after = engine.add(drawing(tokens(300, 2), 8, 2));
  const auto step_each = [&] {
    for (size_t i = 0; i < engine.runner().steps_in_flight(); ++i) engine.step();
  };
  for (int i = 0; i < 4; ++i) EXPECT_ERROR(step_each(), "no token can be sampled");
  EXPECT_EQ(engine.take(before).tokens, drawn_alone(drawing(tokens(9, 1), 3, 1)));
  engine.drop(failing);
  while (engine.step()) continue;
  EXPECT_EQ(engine.take(after).tokens, drawn_alone(drawing(tokens(300, 2), 8, 2)));
}

// A request whose consumer is slow pauses and frees its KV blocks, so that another request runs. The KV cache and the
// scheduler have capacity for only one request at a time.
TEST_P(EngineTest, SlowConsumersPauseWithoutChangingTokens) {
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 160}, {.max_sequences = 1});
  const Request expected = drawing(tokens(70), 80, 3);
  const Request other = drawing(tokens(60, 2), 40, 4);
  const auto backlog = std::make_shared<Backlog>(10);
  Request slow = expected;
  slow.options.n = 2;
  slow.backlog = backlog;
  std::vector<size_t> seen(2);
  slow.on_token = [&](size_t choice, int32_t, std::span<const float>) {
    ++seen[choice];
    backlog->add(1);
  };
  const RequestId slow_id = engine.add(slow);
  const RequestId other_id = engine.add(other);
  while (engine.step()) continue;
  EXPECT_FALSE(engine.has_ended(slow_id));
  ASSERT_TRUE(engine.has_ended(other_id)) << "other requests continue";
  EXPECT_EQ(engine.take(other_id).tokens, drawn_alone(other));
  EXPECT_EQ(engine.statistics().paused, 2U);
  EXPECT_EQ(engine.sequences().size(), 2U);
  EXPECT_EQ(engine.cache().blocks_in_use(), 0) << "it holds no blocks";
  EXPECT_LE(backlog->n_bytes(), 10U + 2U) << "tokens of one more step";
  int n_pauses = 1;
  for (; !engine.has_ended(slow_id); ++n_pauses) {
    EXPECT_TRUE(backlog->remove(backlog->n_bytes()));
    while (engine.step()) continue;
  }
  EXPECT_GT(n_pauses, 10);
  EXPECT_EQ(seen, (std::vector<size_t>{80, 80}));
  const auto results = engine.take_all(slow_id);
  for (size_t i = 0; i < 2; ++i) {
    Request alone = expected;
    alone.options.sampler.seed = choice_seed(3, i);
    EXPECT_EQ(results[i].tokens, drawn_alone(alone)) << "choice " << i;
  }
  // A paused request can be canceled.
  backlog->add(10);
  const RequestId cancelled = engine.add(slow);
  while (engine.step()) continue;
  EXPECT_EQ(engine.statistics().paused, 2U);
  engine.cancel(cancelled);
  EXPECT_EQ(engine.take(cancelled).finish_reason, FinishReason::Interrupted);
  EXPECT_FALSE(engine.step());
}

TEST_P(EngineTest, StopWordsEndTheOutputAndAreIncluded) {
  Request request = drawing(tokens(20, 1), 40, 1);
  const Tokens whole = alone(request).front().tokens;
  const Tokens word = {whole[10], whole[11], whole[12]};
  request.options.stop_words = {{whole[2], 36, 36}, word};
  const GenerateResult cut = alone(request).front();
  const auto end = std::search(whole.begin(), whole.end(), word.begin(), word.end()) + 3;
  EXPECT_EQ(cut.tokens, Tokens(whole.begin(), end));
  EXPECT_EQ(cut.finish_reason, FinishReason::Stop);
}

TEST_P(EngineTest, StopWordsMayBeginInThePrompt) {
  Request request = drawing(tokens(20, 2), 40, 2);
  const int32_t first = alone(request).front().tokens.front();
  request.options.stop_words = {{request.prompt[18], request.prompt[19], first}};
  EXPECT_EQ(alone(request).front().tokens, Tokens{first});
  request.options.stop_words.clear();
  request.options.sampler.bad_words = {{request.prompt[19], first}};
  EXPECT_NE(alone(request).front().tokens.front(), first);
}

TEST_P(EngineTest, BeamsRespectStopAndBadWords) {
  Request request{.prompt = tokens(20, 4), .options = {.max_tokens = 24, .n = 4, .beams = {.width = 4}}};
  const auto free = alone(request);
  const Tokens best = free.front().tokens;
  const Tokens bad = {best[6], best[7]};
  request.options.sampler.bad_words = {bad, {best[0]}};
  for (const GenerateResult& r : alone(request)) {
    EXPECT_FALSE(contains(joined(request.prompt, r.tokens), bad));
    EXPECT_FALSE(contains(r.tokens, {best[0]}));
  }
  request.options.sampler.bad_words.clear();
  const Tokens stop = {best[2], best[3]};
  request.options.stop_words = {stop};
  request.options.beams.length_penalty = 0.0;  // so that the shortest beams have the best scores
  bool stopped = false;
  for (const GenerateResult& r : alone(request)) {
    if (r.finish_reason != FinishReason::Stop) continue;
    stopped = true;
    EXPECT_TRUE(std::equal(stop.rbegin(), stop.rend(), r.tokens.rbegin()));
  }
  EXPECT_TRUE(stopped);
}

// A continued sequence reuses all its positions except that of its last token, which was drawn but not computed.
TEST_P(EngineTest, ContinuingFromATailRecomputesNothing) {
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 3000});
  Request request = drawing(tokens(45, 6), 20, 6);
  request.options.remember_tail = true;
  Tokens text = joined(request.prompt, test::results_of(engine, request).front().tokens);
  const uint64_t rows = engine.statistics().rows;
  for (const size_t more : {7U, 0U, 60U}) {
    request.prompt = joined(text, tokens(more, more));
    const GenerateResult result = test::results_of(engine, request).front();
    EXPECT_EQ(result.n_cached, text.size() - 1);
    EXPECT_EQ(result.tokens, alone(request).front().tokens);
    text = joined(request.prompt, result.tokens);
  }
  EXPECT_EQ(engine.cache().blocks_in_use(), 0);
  EXPECT_EQ(engine.statistics().rows - rows, text.size() - 1 - 64);
}

TEST_P(EngineTest, RejectsInvalidRequests) {
  EngineOn engine(GetParam(), model_);
  EXPECT_ERROR(engine.add(drawing({}, 1)), "empty");
  EXPECT_ERROR(engine.add(drawing({3, 37}, 1)), "vocabulary");
  EXPECT_ERROR(engine.add(drawing({3, -1}, 1)), "vocabulary");
  EXPECT_ERROR(engine.add(drawing(tokens(701), 1)), "701");
  Request request = drawing({1}, 1);
  request.options.stops = {"x"};
  EXPECT_ERROR(engine.add(request), "tokenizer");
  request = drawing({1}, 1);
  request.options.sampler.top_p = 2.0F;
  EXPECT_ERROR(engine.add(request), "top_p");
  request = drawing({1}, 1);
  request.options.sampler.logit_bias = {{37, 1.0F}};
  EXPECT_ERROR(engine.add(request), "logit_bias has token 37");
  for (const std::vector<int32_t>& word : {std::vector<int32_t>{}, {-1}, {1, 37}}) {
    request = drawing({1}, 1);
    request.options.stop_words = {word};
    EXPECT_ERROR(engine.add(request), "a stop word");
    request.options.stop_words.clear();
    request.options.sampler.bad_words = {word};
    EXPECT_ERROR(engine.add(request), "a bad word");
  }
  test::LetterTokenizer wrong;
  wrong.suppressed = {3, 37};
  request = drawing({1}, 1);
  request.tokenizer = &wrong;
  EXPECT_ERROR(engine.add(request), "suppresses token 37");
  request = drawing(tokens(11), 1);
  for (const auto& [context, part] : {std::pair{701, "701"}, {10, "context of 10"}, {-1, "context"}, {1, "context"}}) {
    request.options.context = context;
    EXPECT_ERROR(engine.add(request), part);
  }
  request.options.context = 11;
  request.options.slide = true;
  request.on_logits = [](std::span<const float>) {};
  EXPECT_ERROR(engine.add(request), "fills the sliding context of 11");
  EngineOn small(GetParam(), model_, {.n_threads = 1}, {.max_positions = 32});
  request = drawing(tokens(5), INT64_MAX);
  request.options.context = 100;
  EXPECT_ERROR(small.add(request), "100 positions need 4 blocks");
  EXPECT_FALSE(engine.step());
}

}  // namespace
}  // namespace folio::infer
