// FasterTransformer's interface: its texts are the engine's, whoever owns memory gives it back, a session computes
// nothing twice, and what is not right is refused in a line that names the tensor. That the texts are transformers' is
// tests/python/faster_transformer_test.py.
#include "infer/interfaces/faster_transformer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>

#include "core/error.h"
#include "infer/engine/generate.h"
#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/support.h"

namespace folio::infer::faster_transformer {
namespace {

using Tokens = std::vector<int32_t>;

core::ModelConfig config() {
  core::ModelConfig c = test::small_shapes()[1].config;  // 37 tokens
  c.context_length = 300;
  return c;
}

// The caller's side: arrays, and tensors that are views of them.
class Batch {
 public:
  Batch(std::vector<Tokens> prompts, int32_t length, size_t beam_width = 1) : width_(beam_width) {
    size_t longest = 0;
    for (const Tokens& p : prompts) longest = std::max(longest, p.size());
    Tokens ids, lengths;
    for (const Tokens& p : prompts) {
      ids.insert(ids.end(), p.begin(), p.end());
      ids.resize(ids.size() + longest - p.size(), 999);  // padding is never looked at
      lengths.push_back(static_cast<int32_t>(p.size()));
    }
    const size_t n = prompts.size();
    ints("input_ids", {n, longest}, ids);
    ints("input_lengths", {n}, lengths);
    ints("output_seq_len", {1}, {length});
    output_ids = Tokens(n * width_ * static_cast<size_t>(length), -7);
    sequence_length = Tokens(n * width_, -7);
    out["output_ids"] = {.shape = {n, width_, static_cast<size_t>(length)}, .data = output_ids.data()};
    out["sequence_length"] = {.shape = {n, width_}, .data = sequence_length.data()};
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void ints(const std::string& name, std::vector<size_t> shape, Tokens values) {
    ints_.push_back(std::move(values));
    in[name] = {.shape = std::move(shape), .data = ints_.back().data()};
  }
  void floats(const std::string& name, std::vector<float> values) {
    floats_.push_back(std::move(values));
    in[name] = {.type = TYPE_FP32, .shape = {floats_.back().size()}, .data = floats_.back().data()};
  }
  void go_on() { in["continue_gen"] = {.type = TYPE_BOOL, .shape = {1}, .data = &yes_}; }
  void want_log_probs(size_t most_new) {
    cum_log_probs.assign(sequence_length.size(), 7.0F);
    output_log_probs.assign(sequence_length.size() * most_new, 7.0F);
    auto shape = out["sequence_length"].shape;
    out["cum_log_probs"] = {.type = TYPE_FP32, .shape = shape, .data = cum_log_probs.data()};
    shape.push_back(most_new);
    out["output_log_probs"] = {.type = TYPE_FP32, .shape = shape, .data = output_log_probs.data()};
  }
  // Of text i, its prompt included.
  [[nodiscard]] Tokens text(size_t i, size_t beam = 0) const {
    const size_t at = i * width_ + beam;
    const size_t length = output_ids.size() / sequence_length.size();
    const auto begin = output_ids.begin() + static_cast<std::ptrdiff_t>(at * length);
    return {begin, begin + sequence_length[at]};
  }

  TensorMap in, out;
  Tokens output_ids, sequence_length;
  std::vector<float> cum_log_probs, output_log_probs;

 private:
  size_t width_;
  std::deque<Tokens> ints_;
  std::deque<std::vector<float>> floats_;
  bool yes_ = true;
};

class FasterTransformer : public ::testing::Test {
 protected:
  static LlamaOptions one_thread(bool frees = false) {
    return {.machines = {.n_threads = 1}, .cache_type = CacheType::F32, .is_free_buffer_after_forward = frees};
  }
  static Tokens prompt(size_t n, uint64_t seed) { return test::random_tokens(n, seed, 36); }
  void forward(Batch& batch) { llama_.forward(&batch.out, &batch.in, &weights_); }
  // The engine by itself. The tokenizer's suppressed tokens are the bad words.
  [[nodiscard]] std::vector<GenerateResult> engine_texts(const Tokens& p, GenerateOptions options) const {
    Cpu cpu({.n_threads = 1});
    Engine engine(weights_.file(), cpu, {.max_positions = 6000});
    options.sampler.bad_words.insert(options.sampler.bad_words.end(), {{36}, {5}});
    const RequestId id = engine.add({.prompt = p, .options = options});
    infer::run(engine, std::array{id});
    return engine.take_all(id);
  }
  static Tokens joined(Tokens a, const Tokens& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  void expect_refused(Batch& batch, const std::string& part) {
    const Tokens before = batch.output_ids;
    try {
      forward(batch);
      ADD_FAILURE() << "not refused: " << part;
    } catch (const core::Error& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\nhas no\n" << part;
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    }
    EXPECT_EQ(batch.output_ids, before);
  }

  LlamaWeight weights_{test::random_model(config()), std::make_unique<test::LetterTokenizer>()};
  Llama llama_{weights_, one_thread()};
};

TEST_F(FasterTransformer, GreedyTextsOfARaggedBatchAreTheEngines) {
  const std::vector<Tokens> prompts = {prompt(5, 1), prompt(70, 2), prompt(33, 3)};
  Batch batch(prompts, 90);
  batch.want_log_probs(85);
  forward(batch);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto n_new = 90 - std::ssize(prompts[i]);
    const Tokens expected =
        engine_texts(prompts[i], {.max_tokens = n_new, .sampler = {.temperature = 0.0F}}).front().tokens;
    EXPECT_EQ(batch.text(i), joined(prompts[i], expected));
    double sum = 0.0;
    for (ptrdiff_t t = 0; t < 85; ++t) {
      const float p = batch.output_log_probs[i * 85 + static_cast<size_t>(t)];
      EXPECT_TRUE(t < n_new ? p < 0.0F && p > -10.0F : p == 0.0F) << t;
      sum += static_cast<double>(p);
    }
    EXPECT_NEAR(batch.cum_log_probs[i], sum, 1e-3);
  }
}

TEST_F(FasterTransformer, SamplersAreOfEachText) {
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

TEST_F(FasterTransformer, BeamsAreTheEngines) {
  const std::vector<Tokens> prompts = {prompt(40, 6), prompt(7, 7)};
  Batch batch(prompts, 60, 4);
  batch.floats("len_penalty", {1.0F, 0.5F});
  batch.ints("end_id", {1}, {3});
  batch.want_log_probs(53);
  forward(batch);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const double penalty = i == 0 ? 1.0 : 0.5;
    const auto expected = engine_texts(prompts[i], {.max_tokens = 60 - std::ssize(prompts[i]),
                                                    .stop_words = {{3}},
                                                    .n = 4,
                                                    .beams = {.width = 4, .length_penalty = penalty}});
    for (size_t b = 0; b < 4; ++b) {
      const Tokens& tokens = expected[b].tokens;
      EXPECT_EQ(batch.text(i, b), joined(prompts[i], tokens));
      const float cum = batch.cum_log_probs[i * 4 + b];
      EXPECT_NEAR(cum / std::pow(tokens.size(), penalty), *expected[b].score, 1e-5);
      double sum = 0.0;
      for (size_t t = 0; t < 53; ++t) sum += static_cast<double>(batch.output_log_probs[(i * 4 + b) * 53 + t]);
      EXPECT_NEAR(sum, cum, 1e-4);
    }
  }
}

TEST_F(FasterTransformer, AnEndIdIsPartOfTheTextAndFillsTheRest) {
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

TEST_F(FasterTransformer, WordsAreIdsAndEnds) {
  const std::vector<Tokens> prompts = {prompt(10, 9), prompt(10, 10)};
  Batch free(prompts, 40);
  forward(free);
  const Tokens a = free.text(0), b = free.text(1);
  Batch stops(prompts, 40);  // of the first text one of three tokens and one of one, of the second one of two
  stops.ints("stop_words_list", {2, 2, 4}, {a[25], a[26], a[27], 36, 3, 4, -1, -1, b[30], b[31], 0, 0, 2, -1, -1, -1});
  forward(stops);
  EXPECT_LE(stops.text(0).size(), 28U);
  EXPECT_EQ(stops.text(0), Tokens(a.begin(), a.begin() + std::ssize(stops.text(0))));
  EXPECT_TRUE(std::equal(a.begin() + 25, a.begin() + 28, stops.text(0).end() - 3));
  EXPECT_TRUE(std::equal(b.begin() + 30, b.begin() + 32, stops.text(1).end() - 2));
  Batch bad(prompts, 40);  // of both
  bad.ints("bad_words_list", {2, 3}, {a[10], b[10], b[11], 1, 3, -1});
  forward(bad);
  const Tokens first = bad.text(0), got = bad.text(1);
  EXPECT_EQ(std::count(first.begin() + 10, first.end(), a[10]), 0);
  EXPECT_EQ(std::search(got.begin() + 10, got.end(), b.begin() + 10, b.begin() + 12), got.end());
}

TEST_F(FasterTransformer, ATextWithoutAPromptBeginsWithItsStartId) {
  Batch batch({{}, prompt(3, 1)}, 20);
  batch.ints("start_id", {2}, {4, 9});
  forward(batch);
  EXPECT_EQ(batch.text(0), engine_texts({4}, {.max_tokens = 20, .sampler = {.temperature = 0.0F}}).front().tokens);
  EXPECT_EQ(batch.text(1).front(), prompt(3, 1).front());
  Batch none({{}}, 20);
  forward(none);  // the tokenizer's
  EXPECT_EQ(none.text(0), engine_texts({36}, {.max_tokens = 20, .sampler = {.temperature = 0.0F}}).front().tokens);
}

TEST_F(FasterTransformer, ATextThatIsThereAlreadyStays) {
  Batch batch({prompt(8, 1), prompt(4, 2)}, 8);
  batch.want_log_probs(4);
  forward(batch);
  EXPECT_EQ(batch.text(0), prompt(8, 1));
  EXPECT_EQ(batch.cum_log_probs[0], 0.0F);
  EXPECT_EQ(batch.text(1).size(), 8U);
}

// Each position of a text but the last, which nobody asks for, is computed once.
TEST_F(FasterTransformer, ASessionGoesOnAndComputesNothingTwice) {
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

TEST_F(FasterTransformer, OfBeamsTheBestGoesOn) {
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
  // One row for the token that was the last, five for the new ones, and one for each of three beams' 34 tokens.
  EXPECT_EQ(llama_.statistics().rows - rows, 1U + 5U + 3U * 34U);
}

TEST_F(FasterTransformer, ASessionEndsWithItsBuffer) {
  const auto go_on = [&](size_t n = 1, size_t width = 1) {
    auto batch = std::make_unique<Batch>(std::vector<Tokens>(n, {1}), 40, width);
    batch->go_on();
    return batch;
  };
  expect_refused(*go_on(), "continue_gen goes on from a call with session_len");
  Batch first({prompt(5, 1)}, 20);
  forward(first);
  expect_refused(*go_on(), "continue_gen goes on from a call with session_len");
  first.ints("session_len", {1}, {40});
  forward(first);
  expect_refused(*go_on(2), "input_ids has the shape [2, 1], but continue_gen needs [1, max_input_length]");
  expect_refused(*go_on(1, 2), "output_ids has the shape [1, 2, 40], but continue_gen needs [1, 1, output_seq_len]");
  auto other = go_on();
  other->ints("session_len", {1}, {41});
  expect_refused(*other, "session_len is 41, but the session's is 40");
  forward(*go_on());
  llama_.freeBuffer();
  expect_refused(*go_on(), "continue_gen goes on from a call with session_len");
}

TEST_F(FasterTransformer, TheBufferIsThereFromAllocateToFree) {
  EXPECT_FALSE(llama_.has_buffer());
  llama_.initialize();
  llama_.initialize();
  EXPECT_FALSE(llama_.has_buffer());
  llama_.allocateBuffer(2, 1, 100, 50);
  EXPECT_TRUE(llama_.has_buffer());
  EXPECT_EQ(llama_.statistics().n_blocks, 2 * 4);
  llama_.allocateBuffer(1, 1, 40, 50);  // is large enough
  EXPECT_EQ(llama_.statistics().n_blocks, 2 * 4);
  llama_.allocateBuffer(2, 4, 100, 50);
  EXPECT_EQ(llama_.statistics().n_blocks, 2 * 4 * 5);
  llama_.freeBuffer();
  llama_.freeBuffer();
  EXPECT_FALSE(llama_.has_buffer());

  Batch batch({prompt(5, 1)}, 33);
  forward(batch);
  const Tokens text = batch.text(0);
  EXPECT_EQ(llama_.statistics().n_blocks, 2);
  llama_.freeBuffer();
  Batch again({prompt(5, 1)}, 33);
  forward(again);
  EXPECT_EQ(again.text(0), text);
  EXPECT_TRUE(llama_.has_buffer());

  Llama frees(weights_, one_thread(true));
  Batch third({prompt(5, 1)}, 33);
  for (int i = 0; i < 2; ++i) {
    frees.forward(&third.out, &third.in, &weights_);
    EXPECT_EQ(third.text(0), text);
    EXPECT_FALSE(frees.has_buffer());
  }
  for (const auto& [batch_size, width, length] : {std::array<size_t, 3>{0, 1, 9}, {1, 0, 9}, {1, 1, 0}, {1, 1, 301}}) {
    EXPECT_THROW(llama_.allocateBuffer(batch_size, width, length, 5), core::Error);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep what was freed
size_t resident_bytes() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// 33 MB of keys and values for 2016 positions.
TEST(FasterTransformerMemory, FreeBufferGivesTheMemoryBack) {
  core::ModelConfig c = config();
  c.family = core::Family::Qwen3;
  c.n_layers = 1;
  c.n_heads = c.n_kv_heads = 16;
  c.head_dim = 128;
  c.context_length = 2016;
  const LlamaWeight weights(test::random_model(c), std::make_unique<test::LetterTokenizer>());
  Llama llama(weights, {.machines = {.n_threads = 1}, .cache_type = CacheType::F32});
  constexpr size_t kCache = size_t{2016} * 2 * 16 * 128 * sizeof(float);
  llama.initialize();
  const size_t before = resident_bytes();
  size_t first = 0;
  for (int round = 0; round < 3; ++round) {
    Batch batch({test::random_tokens(2000, 1, 36)}, 2016);
    llama.forward(&batch.out, &batch.in, &weights);
    EXPECT_GE(resident_bytes(), before + kCache);
    llama.freeBuffer();
    const size_t after = resident_bytes();
    EXPECT_LT(after, before + kCache / 4) << "round " << round;
    if (round == 0) first = after;
    EXPECT_LT(after, first + kCache / 16) << "round " << round;
  }
}
#endif

TEST_F(FasterTransformer, WhatIsNotRightIsNamedWithWhatItNeeds) {
  using Change = std::function<void(Batch&)>;
  const auto shape = [](const std::string& name, std::vector<size_t> s) -> Change {
    return [=](Batch& b) { (b.in.contains(name) ? b.in : b.out)[name].shape = s; };
  };
  const auto ints = [](const std::string& name, std::vector<size_t> s, Tokens v) -> Change {
    return [=](Batch& b) { b.ints(name, s, v); };
  };
  const auto floats = [](const std::string& name, std::vector<float> v) -> Change {
    return [=](Batch& b) { b.floats(name, v); };
  };
  const auto extra = [](const std::string& name, std::vector<size_t> s) -> Change {
    return [=](Batch& b) {
      b.want_log_probs(17);
      b.out[name].shape = s;
    };
  };
  const std::vector<std::pair<Change, std::string>> cases = {
      {shape("input_ids", {8}), "input_ids has the shape [8], but needs [batch_size, max_input_length]"},
      {shape("input_ids", {0, 5}), "input_ids has the shape [0, 5], which has no text"},
      {shape("input_lengths", {3}), "input_lengths has the shape [3], but needs [2]"},
      {shape("input_lengths", {2, 1}), "input_lengths has the shape [2, 1], but needs [batch_size]"},
      {shape("output_seq_len", {3}), "output_seq_len has the shape [3], but needs [1] or [2]"},
      {shape("output_ids", {2, 20}), "output_ids has the shape [2, 20], but needs [2, beam_width, output_seq_len]"},
      {shape("output_ids", {2, 1, 19}), "output_ids has the shape [2, 1, 19], but needs [2, 1, 20]"},
      {shape("output_ids", {2, 38, 20}), "output_ids has the shape [2, 38, 20], of 38 beams, but may have 37"},
      {shape("sequence_length", {2}), "sequence_length has the shape [2], but needs [2, 1]"},
      {extra("cum_log_probs", {2}), "cum_log_probs has the shape [2], but needs [2, 1]"},
      {extra("output_log_probs", {17, 2, 1}), "output_log_probs has the shape [17, 2, 1], but needs [2, 1, 17]"},
      {ints("input_lengths", {2}, {5, 6}), "input_lengths is 6 for text 1, but input_ids has the shape [2, 5]"},
      {ints("input_lengths", {2}, {5, -1}), "input_lengths is -1 for text 1"},
      {ints("input_lengths", {2}, {5, 4}), "input_ids has token 999 at [1, 3], outside the vocabulary of 37"},
      {ints("output_seq_len", {2}, {4, 20}), "output_seq_len is 4 for text 0, which has 5 tokens already"},
      {ints("output_seq_len", {1}, {301}), "output_seq_len is 301 for text 0, but has to be in [1, 300]"},
      {ints("session_len", {1}, {19}), "output_seq_len is 20, more than the session_len of 19"},
      {ints("runtime_top_k", {2}, {1, -1}), "runtime_top_k is -1 for text 1, but has to be in [0, 2147483647]"},
      {ints("runtime_top_p", {1}, {1}), "runtime_top_p is of the type int32, but has to be float32"},
      {floats("runtime_top_p", {1.5F}), "runtime_top_p is 1.5 for text 0, but has to be in [0, 1]"},
      {floats("temperature", {1, 2, 3}), "temperature has the shape [3], but needs [1] or [2]"},
      {floats("temperature", {std::nanf("")}), "temperature is nan for text 0"},
      {floats("repetition_penalty", {0}), "repetition_penalty is 0 for text 0"},
      {ints("end_id", {1}, {37}), "end_id is 37 for text 0"},
      {ints("start_id", {1}, {-1}), "start_id is -1 for text 0"},
      {ints("stop_words_list", {2, 1, 2}, {1, 2, 1, -1}),
       "stop_words_list has the shape [2, 1, 2], but needs [2, 2, L] or [2, L]"},
      {ints("bad_words_list", {2, 3}, {1, 2, 3, 2, 1, -1}), "a word of bad_words_list ends at 1 of 3 ids"},
      {ints("bad_words_list", {2, 2}, {1, 2, 3, -1}), "a word of bad_words_list ends at 3 of 2 ids"},
      {ints("bad_words_list", {2, 2}, {1, 37, 2, -1}), "bad_words_list has token 37"},
      {ints("top_k", {1}, {1}), "there is no input tensor top_k; there are input_ids, "},
      {ints("memory_len", {1}, {9}), "the input tensor memory_len is not supported: attention sees the whole text"},
      {[](Batch& b) { b.in.erase("input_lengths"); }, "there is no input tensor input_lengths"},
      {[](Batch& b) { b.in.erase("output_seq_len"); }, "there is no input tensor output_seq_len"},
      {[](Batch& b) { b.out.erase("sequence_length"); }, "there is no output tensor sequence_length"},
      {[](Batch& b) { b.out["is_finished"] = {}; }, "the output tensor is_finished is not supported"},
      {[](Batch& b) { b.in["input_ids"].where = MEMORY_GPU; }, "input_ids lies in a GPU's memory"},
      {[](Batch& b) { b.in["input_ids"].data = nullptr; }, "input_ids has no data"},
      {[](Batch& b) { b.out["output_ids"].type = TYPE_FP32; },
       "output_ids is of the type float32, but has to be int32"},
  };
  for (const auto& [change, message] : cases) {
    Batch batch({prompt(5, 1), prompt(3, 2)}, 20);
    change(batch);
    expect_refused(batch, message);
  }
  Batch beams({prompt(5, 1)}, 20, 2);
  beams.floats("temperature", {0.5F});
  expect_refused(beams, "temperature and repetition_penalty have to be 1 for text 0");
  Batch good({prompt(5, 1)}, 20);
  EXPECT_THROW(llama_.forward(&good.out, &good.in, nullptr), core::Error);
  EXPECT_THROW(llama_.forward(nullptr, &good.in, &weights_), core::Error);
  forward(good);
}

}  // namespace
}  // namespace folio::infer::faster_transformer
