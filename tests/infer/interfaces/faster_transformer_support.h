// Helpers for tests of FasterTransformer's interface: arrays to pass to it, and a fixture that also runs the engine.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "infer/engine/generate.h"
#include "infer/interfaces/faster_transformer.h"
#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/support.h"

namespace folio::infer::faster_transformer {

using Tokens = std::vector<int32_t>;

inline core::ModelConfig config() {
  core::ModelConfig c = test::small_shapes()[1].config;  // with tokens 0 to 36
  c.context_length = 300;
  return c;
}

// The arrays that a caller passes for a batch of prompts, and the tensors that refer to them.
class Batch {
 public:
  Batch(std::vector<Tokens> prompts, int32_t length, size_t beam_width = 1) : width_(beam_width) {
    size_t longest = 0;
    for (const Tokens& p : prompts) longest = std::max(longest, p.size());
    Tokens ids, lengths;
    for (const Tokens& p : prompts) {
      ids.insert(ids.end(), p.begin(), p.end());
      ids.resize(ids.size() + longest - p.size(), 999);  // padding is never read
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
  // Returns the prompt and output tokens of sequence i, or of one of its beams.
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
  // Returns the engine's results for prompt `p`. Tokens that the tokenizer suppresses are passed as bad words.
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
    EXPECT_ERROR(forward(batch), part);
    EXPECT_EQ(batch.output_ids, before);
  }

  LlamaWeight weights_{test::random_model(config()), std::make_unique<test::LetterTokenizer>()};
  Llama llama_{weights_, one_thread()};
};

}  // namespace folio::infer::faster_transformer
