// NVIDIA FasterTransformer's decoder models over Folio's engine: its calls, its tensors by name (docs/interfaces.md has
// the table), its names. Who owns memory, and when:
//   weights     the caller's LlamaWeight: a mapped file. It outlives every Llama that was made with it.
//   tensors     the caller's. forward() reads and writes them, and keeps no pointer when it returns.
//   the buffer  the Llama's, between allocateBuffer() and freeBuffer(): the engine, the KV cache, repacked weights.
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

/// The original's names. This engine takes tensors in the CPU's memory, and copies what a GPU needs.
enum MemoryType { MEMORY_CPU, MEMORY_CPU_PINNED, MEMORY_GPU };
enum DataType { TYPE_BOOL, TYPE_INT32, TYPE_UINT32, TYPE_UINT64, TYPE_FP32 };

/// A view of an array in rows, whose memory is the caller's.
struct Tensor {
  MemoryType where = MEMORY_CPU;
  DataType type = TYPE_INT32;
  std::vector<size_t> shape{};
  void* data = nullptr;

  /// Elements; of no dimension one.
  [[nodiscard]] size_t size() const;
};

using TensorMap = std::map<std::string, Tensor, std::less<>>;

/// A model's weights and its vocabulary. F32, F16 and BF16 are used where they are mapped.
class LlamaWeight {
 public:
  /// Reads a GGUF, a llama2.c file or a Hugging Face directory, and its tokenizer, or the one in the file `tokenizer`.
  /// Throws core::Error if a file can't be read.
  explicit LlamaWeight(const std::string& path, const std::string& tokenizer = "");
  LlamaWeight(core::StoredModel file, std::unique_ptr<data::Tokenizer> tokenizer);

  [[nodiscard]] const core::StoredModel& file() const { return file_; }
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return *tokenizer_; }
  /// What ends a text that says no end_id: the tokenizer's end_of_text() first.
  [[nodiscard]] const std::vector<int32_t>& end_tokens() const { return end_tokens_; }

 private:
  core::StoredModel file_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  std::vector<int32_t> end_tokens_;
};

struct LlamaOptions {
  MachineOptions machines{};
  std::optional<CacheType> cache_type{};  ///< none: default_cache_type()
  std::optional<int32_t> start_id{};      ///< begins a text that has no prompt; none: the tokenizer's begin_of_text()
  std::optional<int32_t> end_id{};        ///< ends a text; none: end_tokens(); below 0: no token does
  bool is_free_buffer_after_forward = false;
};

/// One caller at a time.
class Llama {
 public:
  /// `weights` have to outlive it. Starts nothing.
  explicit Llama(const LlamaWeight& weights, const LlamaOptions& options = {});
  Llama(LlamaWeight&&, const LlamaOptions& = {}) = delete;  // the weights are used where they lie

  // The original does the first three inside. Here they are public: who owns memory when can be seen and measured.

  /// Starts the CPU's threads or opens the GPU; takes no memory that grows with the model. The other calls do it where
  /// it was not done. Throws core::Error if there is no such GPU.
  void initialize();

  /// Takes the buffer for so many texts of so many beams of at most max_seq_len tokens with their prompts; a step has
  /// at most batch_size * max_input_len rows. A buffer that is large enough stays, and so does what its cache holds;
  /// another is given back first. The cache has room for that many tokens; a CPU takes the memory of a part when it is
  /// first used. Throws core::Error if a size is 0 or too large for the model, or if the machine has no room.
  void allocateBuffer(size_t batch_size, size_t beam_width, size_t max_seq_len, size_t max_input_len);

  /// Gives the buffer back to the system, and with it the session. Nothing happens if there is none. The threads stay.
  void freeBuffer();

  /// Computes all texts of a batch: see docs/interfaces.md for the tensors. Takes a buffer if there is none that is
  /// large enough, and gives it back at the end if is_free_buffer_after_forward. `weights` are those that it was made
  /// with. Throws core::Error, and writes no output, if a tensor is missing, unknown, or not of the shape, the type or
  /// the range that it needs.
  void forward(TensorMap* output_tensors, const TensorMap* input_tensors, const LlamaWeight* weights);

  [[nodiscard]] bool has_buffer() const { return engine_ != nullptr; }
  /// Of the buffer's engine, since it was taken.
  [[nodiscard]] EngineStatistics statistics() const { return engine_ ? engine_->statistics() : EngineStatistics{}; }

 private:
  struct Size {
    size_t batch_size = 0;
    size_t beam_width = 0;
    size_t max_seq_len = 0;
  };
  // What a call with continue_gen goes on from.
  struct Session {
    size_t length = 0;  ///< session_len
    size_t beam_width = 0;
    std::vector<std::vector<int32_t>> texts{};  ///< of beams the best
    std::vector<size_t> n_hidden{};             ///< 1 where a start_id, which is not part of the output, begins a text
  };

  const LlamaWeight& weights_;
  LlamaOptions options_;
  std::optional<Machines> machines_;
  std::unique_ptr<Engine> engine_;  ///< uses the machines
  Size size_{};                     ///< of the buffer
  std::optional<Session> session_{};

  friend class Call;
};

}  // namespace folio::infer::faster_transformer
