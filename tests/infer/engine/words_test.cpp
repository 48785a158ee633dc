// Tests stop words and bad words of several tokens, and cached tails: a prompt that continues a finished sequence
// reuses all computed positions of that sequence, not only full KV blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/infer/engine/texts.h"

namespace folio::infer {
namespace {

using test::drawing;
using test::EngineOn;
using Tokens = std::vector<int32_t>;

bool contains(const Tokens& text, const Tokens& word) {
  return std::search(text.begin(), text.end(), word.begin(), word.end()) != text.end();
}

Tokens joined(const Tokens& a, const Tokens& b) {
  Tokens both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

class StopWords : public test::Texts {};

INSTANTIATE_TEST_SUITE_P(Machines, StopWords, ::testing::ValuesIn(test::machine_kinds()), test::kind_name);

TEST_P(StopWords, StopWordsEndTheOutputAndAreIncluded) {
  Request request = drawing(tokens(20, 1), 40, 1);
  const Tokens whole = alone(request).front().tokens;
  const Tokens word = {whole[10], whole[11], whole[12]};
  request.options.stop_words = {{whole[2], 36, 36}, word};
  const GenerateResult cut = alone(request).front();
  const auto end = std::search(whole.begin(), whole.end(), word.begin(), word.end()) + 3;
  EXPECT_EQ(cut.tokens, Tokens(whole.begin(), end));
  EXPECT_EQ(cut.finish_reason, FinishReason::Stop);
}

TEST_P(StopWords, StopWordsMayBeginInThePrompt) {
  Request request = drawing(tokens(20, 2), 40, 2);
  const int32_t first = alone(request).front().tokens.front();
  request.options.stop_words = {{request.prompt[18], request.prompt[19], first}};
  EXPECT_EQ(alone(request).front().tokens, Tokens{first});
  request.options.stop_words.clear();
  request.options.sampler.bad_words = {{request.prompt[19], first}};
  EXPECT_NE(alone(request).front().tokens.front(), first);
}

TEST_P(StopWords, BeamsRespectStopAndBadWords) {
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

TEST_P(StopWords, RejectsInvalidWords) {
  EngineOn engine(GetParam(), model_);
  Request request = drawing(tokens(5, 5), 40, 5);
  request.options.stop_words = {{}};
  EXPECT_THROW(engine.add(request), core::Error);
  request.options.stop_words = {{37}};
  EXPECT_THROW(engine.add(request), core::Error);
  request.options.stop_words.clear();
  for (const Tokens& word : {Tokens{}, Tokens{-1}, Tokens{1, 37}}) {
    request.options.sampler.bad_words = {word};
    EXPECT_THROW(engine.add(request), core::Error);
  }
}

// A continued sequence reuses all its positions except that of its last token, which was drawn but not computed.
TEST_P(StopWords, ContinuingFromATailRecomputesNothing) {
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

}  // namespace
}  // namespace folio::infer
