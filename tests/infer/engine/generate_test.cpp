// Tests infer/engine/generate.h: when and why an output ends, what is streamed, and that an output depends only on the
// model, the prompt and the options.
#include "infer/engine/generate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/machines.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

// Returns a tokenizer whose tokens include parts of UTF-8 characters. The end token may be drawn if `end_may_come`.
test::MadeTokenizer piece_tokenizer(int64_t vocab_size, bool end_may_come) {
  std::vector<std::string> pieces;
  for (const char* piece : {"a", "e", " ", "th", "\n", "\xE2", "\x82\xAC", "\xC3\xA9", "\xF0\x9F", "\x98\x80"}) {
    if (std::ssize(pieces) + 1 < vocab_size) pieces.emplace_back(piece);
  }
  while (std::ssize(pieces) + 1 < vocab_size) pieces.emplace_back(1, static_cast<char>('A' + pieces.size() % 26));
  pieces.emplace_back();
  const auto end = static_cast<int32_t>(pieces.size()) - 1;
  return test::MadeTokenizer(pieces, end_may_come ? std::vector<int32_t>{} : std::vector{end});
}

class Generate : public ::testing::TestWithParam<test::MachineKind> {
 protected:
  core::StoredModel model_ = test::random_model(GetParam().model);  // vocabulary 37, context 100
  test::MadeTokenizer tokenizer_ = piece_tokenizer(37, false);
  test::EngineOn engine_{GetParam(), model_};
  std::vector<int32_t> prompt_{3, 1, 4, 1, 5};

  static GenerateOptions options(int64_t max_tokens = 60, uint64_t seed = 1) {
    GenerateOptions o;
    o.max_tokens = max_tokens;
    o.sampler = {.temperature = 1.0F, .top_p = 1.0F, .seed = seed};
    return o;
  }
  GenerateResult generate(const GenerateOptions& o, const std::function<void(std::string_view)>& on_text = {},
                          const Interrupted& interrupted = {}) {
    auto result = infer::generate(engine_, tokenizer_, prompt_, o, on_text, interrupted);
    EXPECT_EQ(engine_.cache().blocks_in_use(), 0) << "the sequence was not released";
    return result;
  }
};

INSTANTIATE_TEST_SUITE_P(Machines, Generate, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

// Returns the tokens that generate() must return. Computes each in a new cache, so that no state persists.
std::vector<int32_t> recomputed(const test::MachineKind& kind, const core::StoredModel& model,
                                const data::Tokenizer& tokenizer, std::vector<int32_t> history,
                                const GenerateOptions& o, size_t context) {
  Sampler sampler(o.sampler, tokenizer.suppressed_tokens());
  std::vector<int32_t> window = history;
  std::vector<int32_t> tokens;
  while (static_cast<int64_t>(tokens.size()) < o.max_tokens) {
    if (window.size() == context) {
      if (!o.slide) break;
      window.assign(history.end() - static_cast<std::ptrdiff_t>(context / 2), history.end());
    }
    test::RunnerOn runner(kind, model);
    const auto all = test::run(runner, test::rows_of(runner.cache().add_sequence(), window));
    std::vector<float> logits(all.end() - model.config.vocab_size, all.end());
    const auto token = sampler.sample(logits, history, static_cast<int64_t>(history.size()));
    for (auto* list : {&tokens, &history, &window}) list->push_back(token);
  }
  return tokens;
}

TEST_P(Generate, EndsAtTheContext) {
  for (const int64_t context : {0, 20, 6, 5}) {
    auto o = options(1000);
    o.context = context;
    const auto result = generate(o);
    EXPECT_EQ(result.tokens.size(), static_cast<size_t>(context == 0 ? 100 : context) - prompt_.size());
    EXPECT_EQ(result.finish_reason, FinishReason::Length);
    EXPECT_EQ(finish_reason_name(result.finish_reason), "length");
  }
  EXPECT_TRUE(generate(options(0)).tokens.empty());
}

TEST_P(Generate, SlidingEqualsARecomputationFromTheLastHalf) {
  for (const int64_t context : {5, 16, 33, 100}) {
    auto o = options(150, 3);
    o.context = context;
    o.slide = true;
    if (context % 2 == 0) o.sampler.repetition_penalty = 1.1F;
    const auto result = generate(o);
    EXPECT_EQ(result.tokens.size(), 150U);
    EXPECT_EQ(result.tokens, recomputed(GetParam(), model_, tokenizer_, prompt_, o, static_cast<size_t>(context)));
  }
}

TEST_P(Generate, StopStringsAreExcluded) {
  const auto whole = generate(options(80, 9));
  int tried = 0;
  for (size_t at = 5; at + 3 < whole.text.size(); at += 11) {
    auto o = options(80, 9);
    o.stops = {whole.text.substr(at, 3)};
    const auto result = generate(o);
    EXPECT_EQ(result.text, whole.text.substr(0, whole.text.find(o.stops[0])));
    EXPECT_EQ(result.finish_reason, FinishReason::Stop);
    EXPECT_LT(result.tokens.size(), whole.tokens.size());
    EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), whole.tokens.begin()));
    ++tried;
  }
  EXPECT_GT(tried, 3);
  auto o = options(80, 9);
  o.stops = {"no output"};
  EXPECT_EQ(generate(o).text, whole.text);
  EXPECT_EQ(finish_reason_name(FinishReason::Stop), "stop");
}

TEST_P(Generate, EndOfTextStopsAndIsHidden) {
  tokenizer_ = piece_tokenizer(37, true);
  int stopped = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto result = generate(options(60, seed));
    EXPECT_EQ(std::count(result.tokens.begin(), result.tokens.end(), tokenizer_.end_of_text()), 0);
    EXPECT_EQ(result.text, tokenizer_.decode(result.tokens));
    EXPECT_EQ(result.finish_reason == FinishReason::Stop, result.tokens.size() < 60);
    stopped += result.finish_reason == FinishReason::Stop ? 1 : 0;
  }
  EXPECT_GT(stopped, 0);
}

TEST_P(Generate, InterruptionStopsPrefill) {
  core::ModelConfig config = test::small_shapes()[1].config;
  config.context_length = 1000;
  const auto model = test::random_model(config);
  test::EngineOn engine(GetParam(), model, {.n_threads = 1}, {.n_sequences = 2});
  const auto prompt = test::random_tokens(700, 3, config.vocab_size);
  const auto o = options(5);
  int asked = 0;  // calls of the callback below, one before each step
  const auto result = infer::generate(engine, tokenizer_, prompt, o, {}, [&] { return ++asked > 2; });
  EXPECT_EQ(result.finish_reason, FinishReason::Interrupted);
  EXPECT_EQ(finish_reason_name(result.finish_reason), "interrupted");
  EXPECT_TRUE(result.tokens.empty());
  const auto rest = infer::generate(engine, tokenizer_, prompt, o);
  EXPECT_EQ(rest.n_cached, 2 * kMaxRows) << "the two computed steps";
  test::EngineOn other(GetParam(), model);
  EXPECT_EQ(rest.tokens, infer::generate(other, tokenizer_, prompt, o).tokens) << "the cached blocks are valid";
}

TEST_P(Generate, BatchMatchesSinglePrompts) {
  const std::vector<std::vector<int32_t>> prompts{{3, 1, 4, 1, 5}, {9}, std::vector<int32_t>(40, 2), {3, 1}, {9}};
  for (const bool slide : {false, true}) {
    auto o = options(70, 6);
    o.context = 48;
    o.slide = slide;
    o.stops = {"aa", "€"};
    test::EngineOn engine(GetParam(), model_, {.n_threads = 2}, {.max_positions = 5 * 64});
    std::vector<std::string> streamed(prompts.size());
    const auto results = generate_batch(engine, tokenizer_, prompts, o,
                                        [&](size_t index, std::string_view text) { streamed.at(index) += text; });
    EXPECT_EQ(engine.cache().blocks_in_use(), 0);
    ASSERT_EQ(results.size(), prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto single = infer::generate(engine_, tokenizer_, prompts[i], o);
      EXPECT_EQ(results[i].tokens, single.tokens) << "prompt " << i;
      EXPECT_EQ(results[i].text, single.text) << "prompt " << i;
      EXPECT_EQ(results[i].finish_reason, single.finish_reason) << "prompt " << i;
      EXPECT_EQ(streamed[i], results[i].text) << "prompt " << i;
    }
  }
}

TEST_P(Generate, RejectedBatchesFreeTheirBlocks) {
  EXPECT_TRUE(generate_batch(engine_, tokenizer_, {}, options()).empty());
  EXPECT_ERROR(generate_batch(engine_, tokenizer_, std::vector<std::vector<int32_t>>{{1}, {}}, options()), "empty");
  EXPECT_EQ(engine_.cache().blocks_in_use(), 0);
}

}  // namespace
}  // namespace folio::infer
