// Tests requests with several outputs, sampled or by beam search: custom policies, callbacks and errors.
// forms_together_test.cpp runs searches in batches, tests/apps/beams_test.py compares tokens and scores with
// transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "experiments/18_sampling/halving.h"
#include "tests/infer/engine/texts.h"

namespace folio::infer {
namespace {

using test::EngineOn;

class Beams : public test::Texts {
 protected:
  static Request searching(size_t n_prompt, uint64_t seed, int64_t width, int64_t max_tokens = 60) {
    return {.prompt = tokens(n_prompt, seed),
            .options = {.max_tokens = max_tokens, .end_tokens = {3}, .n = width, .beams = {.width = width}}};
  }
  static Request drawing(size_t n_prompt, uint64_t seed, int64_t n = 1) {
    return {.prompt = tokens(n_prompt, seed),
            .options = {.max_tokens = 50, .sampler = {.temperature = 1.0F, .seed = seed}, .n = n}};
  }
};

INSTANTIATE_TEST_SUITE_P(Machines, Beams, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

// The policy keeps the three likeliest of six samples. These must equal samples drawn without the policy, even after
// preemption.
TEST_P(Beams, CustomPolicyKeepsTheLikelierHalf) {
  constexpr size_t kAfter = 8;
  Request request = drawing(33, 2, 6);
  std::vector<GenerateResult> expected = alone(request);
  const auto begins = [&](const GenerateResult& r) { return log_prob(request, std::span(r.tokens).first(kAfter)); };
  std::ranges::sort(expected, std::ranges::greater{}, begins);
  expected.resize(3);
  for (GenerateResult& result : expected) result.score = log_prob(request, result.tokens);
  std::ranges::sort(expected, std::ranges::greater{}, &GenerateResult::score);
  request.policy = [] { return std::make_unique<experiments::Halving>(size_t{kAfter}); };
  for (const int64_t blocks : {400, 19}) {
    EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = blocks * kBlockPositions});
    const RequestId other = engine.add(drawing(33, 3, 6));
    const auto left = test::results_of(engine, request);
    ASSERT_EQ(left.size(), 3U);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(left[i].tokens, expected[i].tokens);
      EXPECT_NEAR(*left[i].score, *expected[i].score, 1e-3);
    }
    EXPECT_EQ(engine.take_all(other).size(), 6U);
    EXPECT_EQ(engine.statistics().preemptions > 0, blocks < 100);
    EXPECT_EQ(engine.cache().blocks_in_use(), 0);
  }
}

TEST_P(Beams, OneBeamMatchesGreedy) {
  Request greedy = searching(30, 3, 1);
  greedy.options.beams = {};
  greedy.options.sampler.temperature = 0.0F;
  EXPECT_EQ(alone(searching(30, 3, 1)).front().tokens, alone(greedy).front().tokens);
}

TEST_P(Beams, CallbacksRunAtTheEnd) {
  Request request = searching(10, 1, 4, 12);
  request.options.n = 2;
  std::vector<std::vector<int32_t>> tokens(2);
  std::vector<size_t> ended;
  request.on_token = [&](size_t choice, int32_t token, std::span<const float>) { tokens.at(choice).push_back(token); };
  request.on_end = [&](size_t choice, const GenerateResult& result) {
    EXPECT_EQ(result.tokens, tokens.at(choice));
    ended.push_back(choice);
  };
  const auto results = alone(request);
  EXPECT_EQ(ended, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(results[1].tokens, tokens[1]);
}

TEST_P(Beams, CancelledSearchReturnsTheBestSoFar) {
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 3000});
  const RequestId id = engine.add(searching(10, 1, 4));
  const RequestId unbegun = engine.add(searching(10, 1, 4));
  engine.cancel(unbegun);
  EXPECT_EQ(engine.take_all(unbegun).size(), 4U);
  for (int i = 0; i < 6; ++i) engine.step();
  engine.cancel(id);
  const auto results = engine.take_all(id);
  ASSERT_EQ(results.size(), 4U);
  EXPECT_FALSE(results[0].tokens.empty());
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(engine.cache().blocks_in_use(), 0);
}

TEST_P(Beams, RejectsInvalidSearches) {
  EngineOn engine(GetParam(), model_, {.n_threads = 1}, {.max_positions = 640});
  const auto refused = [&](const auto& change, const char* why) {
    Request request = searching(10, 1, 4);
    change(request.options);
    EXPECT_ERROR(engine.add(request), why);
  };
  refused([](GenerateOptions& o) { o.beams.width = 65; }, "the number of beams is 65, but must be in [1, 64]");
  refused([](GenerateOptions& o) { o.beams.width = 40; }, "40 beams exceed the vocabulary of 37 tokens");
  refused([](GenerateOptions& o) { o.n = 5; }, "n is 5, but must be at most the number of beams, 4");
  refused([](GenerateOptions& o) { o.slide = true; }, "do not support a sliding context");
  refused([](GenerateOptions& o) { o.beams.length_penalty = NAN; }, "length_penalty is nan");
  refused([](GenerateOptions& o) { o.max_tokens = 200; }, "4 beams of 209 positions need 32 blocks of the KV cache");
  EXPECT_FALSE(engine.step());
}

}  // namespace
}  // namespace folio::infer
