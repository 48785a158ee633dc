// Tests FasterTransformer's interface: the KV cache is allocated and freed on request, and the error for an
// invalid tensor names the tensor, its shape and the expected one.
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "tests/infer/interfaces/faster_transformer_support.h"

namespace folio::infer::faster_transformer {
namespace {

TEST_F(FasterTransformer, BufferExistsFromAllocateToFree) {
  EXPECT_FALSE(llama_.has_buffer());
  llama_.initialize();
  llama_.initialize();
  EXPECT_FALSE(llama_.has_buffer());
  llama_.allocateBuffer(2, 1, 100, 50);
  EXPECT_TRUE(llama_.has_buffer());
  EXPECT_EQ(llama_.statistics().n_blocks, 2 * 4);
  llama_.allocateBuffer(1, 1, 40, 50);  // needs less, so the buffer is reused
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

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers don't release freed memory
size_t resident_bytes() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// The keys and values of 2,016 positions take 33 MB, so their release is visible in the process's memory.
TEST(FasterTransformerMemory, FreeBufferReleasesMemory) {
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

TEST_F(FasterTransformer, ErrorsNameTheInputAndExpectation) {
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
      {shape("input_ids", {8}), "input_ids has shape [8], expected [batch_size, max_input_length]"},
      {shape("input_ids", {0, 5}), "input_ids has shape [0, 5], expected at least one sequence"},
      {shape("input_lengths", {3}), "input_lengths has shape [3], expected [2]"},
      {shape("input_lengths", {2, 1}), "input_lengths has shape [2, 1], expected [batch_size]"},
      {shape("output_seq_len", {3}), "output_seq_len has shape [3], expected [1] or [2]"},
      {shape("output_ids", {2, 20}), "output_ids has shape [2, 20], expected [2, beam_width, output_seq_len]"},
      {shape("output_ids", {2, 1, 19}), "output_ids has shape [2, 1, 19], expected [2, 1, 20]"},
      {shape("output_ids", {2, 38, 20}), "output_ids has shape [2, 38, 20] with 38 beams, expected at most 37"},
      {shape("sequence_length", {2}), "sequence_length has shape [2], expected [2, 1]"},
      {extra("cum_log_probs", {2}), "cum_log_probs has shape [2], expected [2, 1]"},
      {extra("output_log_probs", {17, 2, 1}), "output_log_probs has shape [17, 2, 1], expected [2, 1, 17]"},
      {ints("input_lengths", {2}, {5, 6}), "input_lengths is 6 for sequence 1, but input_ids has shape [2, 5]"},
      {ints("input_lengths", {2}, {5, -1}), "input_lengths is -1 for sequence 1"},
      {ints("input_lengths", {2}, {5, 4}), "input_ids has token 999 at [1, 3], outside the vocabulary of 37"},
      {ints("output_seq_len", {2}, {4, 20}), "output_seq_len is 4 for sequence 0, which already has 5 tokens"},
      {ints("output_seq_len", {1}, {301}), "output_seq_len is 301 for sequence 0, but must be in [1, 300]"},
      {ints("session_len", {1}, {19}), "output_seq_len is 20, more than the session_len of 19"},
      {ints("runtime_top_k", {2}, {1, -1}), "runtime_top_k is -1 for sequence 1, but must be in [0, 2147483647]"},
      {ints("runtime_top_p", {1}, {1}), "runtime_top_p has type int32, expected float32"},
      {floats("runtime_top_p", {1.5F}), "runtime_top_p is 1.5 for sequence 0, but must be in [0, 1]"},
      {floats("temperature", {1, 2, 3}), "temperature has shape [3], expected [1] or [2]"},
      {floats("temperature", {std::nanf("")}), "temperature is nan for sequence 0"},
      {floats("repetition_penalty", {0}), "repetition_penalty is 0 for sequence 0"},
      {ints("end_id", {1}, {37}), "end_id is 37 for sequence 0"},
      {ints("start_id", {1}, {-1}), "start_id is -1 for sequence 0"},
      {ints("stop_words_list", {2, 1, 2}, {1, 2, 1, -1}),
       "stop_words_list has shape [2, 1, 2], expected [2, 2, L] or [2, L]"},
      {ints("bad_words_list", {2, 3}, {1, 2, 3, 2, 1, -1}),
       "bad_words_list: a word ends at offset 1, expected one above 2 and at most 3"},
      {ints("bad_words_list", {2, 2}, {1, 2, 3, -1}),
       "bad_words_list: a word ends at offset 3, expected one above 0 and at most 2"},
      {ints("bad_words_list", {2, 2}, {1, 37, 2, -1}), "bad_words_list has token 37"},
      {ints("top_k", {1}, {1}), "unknown input tensor top_k, expected one of input_ids, "},
      {ints("memory_len", {1}, {9}), "input tensor memory_len is not supported: attention covers the whole sequence"},
      {[](Batch& b) { b.in.erase("input_lengths"); }, "input tensor input_lengths is missing"},
      {[](Batch& b) { b.in.erase("output_seq_len"); }, "input tensor output_seq_len is missing"},
      {[](Batch& b) { b.out.erase("sequence_length"); }, "output tensor sequence_length is missing"},
      {[](Batch& b) { b.out["is_finished"] = {}; }, "output tensor is_finished is not supported"},
      {[](Batch& b) { b.in["input_ids"].where = MEMORY_GPU; }, "input_ids is in GPU memory"},
      {[](Batch& b) { b.in["input_ids"].data = nullptr; }, "input_ids has no data"},
      {[](Batch& b) { b.out["output_ids"].type = TYPE_FP32; }, "output_ids has type float32, expected int32"},
  };
  for (const auto& [change, message] : cases) {
    Batch batch({prompt(5, 1), prompt(3, 2)}, 20);
    change(batch);
    expect_refused(batch, message);
  }
  Batch beams({prompt(5, 1)}, 20, 2);
  beams.floats("temperature", {0.5F});
  expect_refused(beams, "temperature and repetition_penalty must be 1 for sequence 0");
  Batch good({prompt(5, 1)}, 20);
  EXPECT_THROW(llama_.forward(&good.out, &good.in, nullptr), core::Error);
  EXPECT_THROW(llama_.forward(nullptr, &good.in, &weights_), core::Error);
  forward(good);
}

}  // namespace
}  // namespace folio::infer::faster_transformer
