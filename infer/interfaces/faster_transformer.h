// NVIDIA FasterTransformer's decoder models on Folio's engine, with its calls, tensors and names
// (docs/faster_transformer.md).
// Memory ownership:
//   weights  owned by the caller's LlamaWeight, a mapped file, which must outlive every Llama that uses it
//   tensors  owned by the caller; forward() reads and writes them, and keeps no pointers
//   buffer   owned by Llama from allocateBuffer() to freeBuffer(): engine, KV cache, repacked weights
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/weights.h"
#include "data/tokenizers/tokenizer.h"
#include "infer/engine/engine.h"
#include "infer/machines/machines.h"

namespace folio::infer::faster_transformer {

/// The kind of memory that holds a tensor's data, named as in FasterTransformer. Only CPU memory is supported.
enum MemoryType { MEMORY_CPU, MEMORY_CPU_PINNED, MEMORY_GPU };
enum DataType { TYPE_BOOL, TYPE_INT32, TYPE_UINT32, TYPE_UINT64, TYPE_FP32 };

/// A view of a row-major array. The caller owns its memory.
struct Tensor {
  MemoryType where = MEMORY_CPU;
  DataType type = TYPE_INT32;
  std::vector<size_t> shape{};
  void* data = nullptr;

  /// Returns the number of elements; 1 if there are no dimensions.
  [[nodiscard]] size_t size() const;
};

using TensorMap = std::map<std::string, Tensor, std::less<>>;

/// A model's weights and vocabulary. F32, F16 and BF16 weights are used in place in the mapped file.
class LlamaWeight {
 public:
  /// Reads a GGUF file, a llama2.c file or a Hugging Face directory. `tokenizer` is a tokenizer file; empty: the
  /// model's own tokenizer. Throws core::Error if a file cannot be read.
  explicit LlamaWeight(const std::string& path, const std::string& tokenizer = "");
  LlamaWeight(core::StoredModel file, std::unique_ptr<data::Tokenizer> tokenizer);

  [[nodiscard]] const core::StoredModel& file() const { return file_; }
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Returns the tokens that end an output by default, the tokenizer's end_of_text() first.
  [[nodiscard]] const std::vector<int32_t>& end_tokens() const { return end_tokens_; }

 private:
  core::StoredModel file_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  std::vector<int32_t> end_tokens_;
};

struct LlamaOptions {
  MachineOptions machines{};
  std::optional<CacheType> cache_type{};  ///< element type of the KV cache; empty: default_cache_type()
  std::optional<int32_t> start_id{};      ///< first token of an empty prompt; default: the tokenizer's begin_of_text()
  std::optional<int32_t> end_id{};        ///< token that ends an output; default: end_tokens(); negative: none
  bool is_free_buffer_after_forward = false;
};

/// FasterTransformer's model class. Not thread-safe.
class Llama {
 public:
  /// Creates a model without a buffer, and starts no threads. `weights` must outlive this object.
  explicit Llama(const LlamaWeight& weights, const LlamaOptions& options = {});
  Llama(LlamaWeight&&, const LlamaOptions& = {}) = delete;  // the weights must outlive this object

  // FasterTransformer does the work of the next three functions internally. Here, memory use is explicit.

  /// Starts the CPU's threads or opens the GPU. Allocates no memory for weights or cache. The other functions call it
  /// if needed. Throws core::Error if the GPU does not exist.
  void initialize();

  /// Allocates the buffer for batch_size * beam_width sequences of at most max_seq_len tokens, including prompts, and
  /// steps of at most batch_size * max(max_input_len, beam_width) rows. Keeps the current buffer and its cache if they
  /// are large enough, otherwise frees them first. A CPU's cache uses memory only as blocks are written. Throws
  /// core::Error if a size is 0 or too large for the model, or if the machine lacks memory.
  void allocateBuffer(size_t batch_size, size_t beam_width, size_t max_seq_len, size_t max_input_len);

  /// Frees the buffer, and with it the state for continue_gen. Does nothing without a buffer. Threads keep running.
  void freeBuffer();

  /// Generates the outputs of a batch: see docs/faster_transformer.md for the tensors. Allocates a buffer if there is
  /// none that is large enough, and frees it at the end if is_free_buffer_after_forward is set. `weights` must be those
  /// of the constructor. Throws core::Error, and writes no output, if a tensor is missing, unknown or invalid.
  void forward(TensorMap* output_tensors, const TensorMap* input_tensors, const LlamaWeight* weights);

  [[nodiscard]] bool has_buffer() const { return engine_ != nullptr; }
  /// Returns the engine's statistics since the buffer was allocated; all 0 without a buffer.
  [[nodiscard]] EngineStatistics statistics() const { return engine_ ? engine_->statistics() : EngineStatistics{}; }

 private:
  struct Size {
    size_t batch_size = 0;
    size_t beam_width = 0;
    size_t max_seq_len = 0;
  };
  // The sequences of the last call, which a call with continue_gen continues.
  struct Session {
    size_t length = 0;  ///< maximum number of tokens per sequence: the input tensor session_len
    size_t beam_width = 0;
    std::vector<std::vector<int32_t>> sequences{};  ///< tokens of each sequence so far; with beams, of the best beam
    std::vector<size_t> n_hidden{};  ///< per sequence: 1 if it begins with a start_id that the output omits
  };

  const LlamaWeight& weights_;
  LlamaOptions options_;
  std::optional<Machines> machines_;
  std::unique_ptr<Engine> engine_;  ///< declared after machines_, which it uses
  Size size_{};                     ///< capacity of the buffer
  std::optional<Session> session_{};

  friend class Call;
};

}  // namespace folio::infer::faster_transformer
