// Tests FasterTransformer's interface: outputs equal the engine's, and a session computes no position twice.
// tests/python/faster_transformer_test.py compares outputs with those of transformers.
#include <algorithm>

#include "tests/infer/interfaces/faster_transformer_support.h"

namespace folio::infer::faster_transformer {
namespace {

TEST_F(FasterTransformer, SamplingOptionsApplyPerSequence) {
  const std::vector<Tokens> prompts = {prompt(9, 4), prompt(9, 4), prompt(12, 5)};
  Batch batch(prompts, 40);
  batch.ints("runtime_top_k", {3}, {0, 5, 1});
  batch.floats("runtime_top_p", {0.9F, 0.0F, 0.5F});
  batch.floats("temperature", {0.7F, 2.0F, 1.0F});
  batch.floats("repetition_penalty", {1.3F});
  batch.ints("random_seed", {3}, {11, 12, 13});
  forward(batch);
  const std::vector<SamplerOptions> same = {
      {.temperature = 0.7F, .top_p = 0.9F, .repetition_penalty = 1.3F, .repeat_last_n = 1000, .seed = 11},
      {.temperature = 2.0F, .top_k = 5, .top_p = 1.0F, .repetition_penalty = 1.3F, .repeat_last_n = 1000, .seed = 12},
      {.temperature = 0.0F, .repetition_penalty = 1.3F, .repeat_last_n = 1000}};
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto expected = engine_texts(prompts[i], {.max_tokens = 40 - std::ssize(prompts[i]), .sampler = same[i]});
    EXPECT_EQ(batch.text(i), joined(prompts[i], expected.front().tokens)) << i;
  }
}

TEST_F(FasterTransformer, EndIdIsIncludedAndPadsTheOutput) {
  const Tokens p = prompt(10, 8);
  Batch free({p}, 40);
  forward(free);
  const Tokens whole = free.text(0);
  const int32_t end = whole[20];
  const auto first = std::find(whole.begin() + 10, whole.end(), end) + 1;
  Batch batch({p}, 40);
  batch.ints("end_id", {1}, {end});
  forward(batch);
  EXPECT_EQ(batch.text(0), Tokens(whole.begin(), first));
  EXPECT_TRUE(std::all_of(batch.output_ids.begin() + (first - whole.begin()), batch.output_ids.end(),
                          [&](int32_t id) { return id == end; }));
  Batch never({p}, 40);
  never.ints("end_id", {1}, {-1});
  forward(never);
  EXPECT_EQ(never.text(0), whole);
}

TEST_F(FasterTransformer, WordListsUseIdsAndOffsets) {
  const std::vector<Tokens> prompts = {prompt(10, 9), prompt(10, 10)};
  Batch free(prompts, 40);
  forward(free);
  const Tokens a = free.text(0), b = free.text(1);
  Batch stops(prompts, 40);  // stop words: of 3 and 1 tokens for the first prompt, of 2 for the second
  stops.ints("stop_words_list", {2, 2, 4}, {a[25], a[26], a[27], 36, 3, 4, -1, -1, b[30], b[31], 0, 0, 2, -1, -1, -1});
  forward(stops);
  EXPECT_LE(stops.text(0).size(), 28U);
  EXPECT_EQ(stops.text(0), Tokens(a.begin(), a.begin() + std::ssize(stops.text(0))));
  EXPECT_TRUE(std::equal(a.begin() + 25, a.begin() + 28, stops.text(0).end() - 3));
  EXPECT_TRUE(std::equal(b.begin() + 30, b.begin() + 32, stops.text(1).end() - 2));
  Batch bad(prompts, 40);  // its bad_words_list has no batch dimension, so it applies to both prompts
  bad.ints("bad_words_list", {2, 3}, {a[10], b[10], b[11], 1, 3, -1});
  forward(bad);
  const Tokens first = bad.text(0), got = bad.text(1);
  EXPECT_EQ(std::count(first.begin() + 10, first.end(), a[10]), 0);
  EXPECT_EQ(std::search(got.begin() + 10, got.end(), b.begin() + 10, b.begin() + 12), got.end());
}

TEST_F(FasterTransformer, EmptyPromptsBeginWithTheStartId) {
  Batch batch({{}, prompt(3, 1)}, 20);
  batch.ints("start_id", {2}, {4, 9});
  forward(batch);
  EXPECT_EQ(batch.text(0), engine_texts({4}, {.max_tokens = 20, .sampler = {.temperature = 0.0F}}).front().tokens);
  EXPECT_EQ(batch.text(1).front(), prompt(3, 1).front());
  Batch none({{}}, 20);
  forward(none);  // an empty prompt is replaced by the default prompt
  EXPECT_EQ(none.text(0), engine_texts({36}, {.max_tokens = 20, .sampler = {.temperature = 0.0F}}).front().tokens);
}

TEST_F(FasterTransformer, CompletePromptsAreUnchanged) {
  Batch batch({prompt(8, 1), prompt(4, 2)}, 8);
  batch.want_log_probs(4);
  forward(batch);
  EXPECT_EQ(batch.text(0), prompt(8, 1));
  EXPECT_EQ(batch.cum_log_probs[0], 0.0F);
  EXPECT_EQ(batch.text(1).size(), 8U);
}

// Continuing a session computes only its new positions and that of the last token, which was drawn but not computed.
TEST_F(FasterTransformer, SessionsContinueWithoutRecomputation) {
  std::vector<Tokens> texts = {prompt(45, 11), prompt(3, 12), prompt(64, 13)};
  Batch first(texts, 90);
  first.ints("session_len", {1}, {250});
  forward(first);
  uint64_t total = 0;
  for (size_t i = 0; i < 3; ++i) {
    texts[i] = first.text(i);
    total += texts[i].size() - 1;
  }
  EXPECT_EQ(llama_.statistics().rows, total);
  for (const int32_t length : {130, 250}) {
    const std::vector<Tokens> more = {prompt(20, 14), {}, prompt(1, 15)};
    Batch next(more, length);
    next.go_on();
    forward(next);
    total = 0;
    for (size_t i = 0; i < 3; ++i) {
      const Tokens all = joined(texts[i], more[i]);
      const auto n_new = length - std::ssize(all);
      const Tokens expected = engine_texts(all, {.max_tokens = n_new, .sampler = {.temperature = 0.0F}}).front().tokens;
      EXPECT_EQ(next.text(i), joined(all, expected)) << "text " << i << " of " << length;
      texts[i] = next.text(i);
      total += texts[i].size() - 1;
    }
    EXPECT_EQ(llama_.statistics().rows, total);
  }
  EXPECT_EQ(llama_.statistics().preemptions, 0U);

  Batch over({{}, {}, {}}, 251);
  over.go_on();
  expect_refused(over, "output_seq_len is 251, more than the session_len of 250");
}

TEST_F(FasterTransformer, SessionsContinueTheBestBeam) {
  Batch first({prompt(40, 16)}, 60, 3);
  first.ints("session_len", {1}, {120});
  forward(first);
  const uint64_t rows = llama_.statistics().rows;
  Batch next({prompt(5, 17)}, 100, 3);
  next.go_on();
  forward(next);
  const Tokens all = joined(first.text(0), prompt(5, 17));
  const auto expected = engine_texts(all, {.max_tokens = 35, .n = 3, .beams = {.width = 3, .length_penalty = 0.0}});
  for (size_t b = 0; b < 3; ++b) EXPECT_EQ(next.text(0, b), joined(all, expected[b].tokens));
  // The call computes one row for the session's last token, five for the new prompt, and 34 for each of three beams.
  EXPECT_EQ(llama_.statistics().rows - rows, 1U + 5U + 3U * 34U);
}

TEST_F(FasterTransformer, SessionsEndWithTheirBuffer) {
  const auto go_on = [&](size_t n = 1, size_t width = 1) {
    auto batch = std::make_unique<Batch>(std::vector<Tokens>(n, {1}), 40, width);
    batch->go_on();
    return batch;
  };
  expect_refused(*go_on(), "continue_gen needs an earlier call with session_len");
  Batch first({prompt(5, 1)}, 20);
  forward(first);
  expect_refused(*go_on(), "continue_gen needs an earlier call with session_len");
  first.ints("session_len", {1}, {40});
  forward(first);
  expect_refused(*go_on(2), "input_ids has shape [2, 1], but the session of continue_gen needs [1, max_input_length]");
  expect_refused(*go_on(1, 2),
                 "output_ids has shape [1, 2, 40], but the session of continue_gen needs [1, 1, output_seq_len]");
  auto other = go_on();
  other->ints("session_len", {1}, {41});
  expect_refused(*other, "session_len is 41, but the session was started with 40");
  forward(*go_on());
  llama_.freeBuffer();
  expect_refused(*go_on(), "continue_gen needs an earlier call with session_len");
}

}  // namespace
}  // namespace folio::infer::faster_transformer
