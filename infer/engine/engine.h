// The engine: one forward pass over a ragged batch of tokens, each a row (token, sequence, position).
// A prompt, a chunk of one, a decode step and sixteen users at once are all this call.
// A row's result is a function of its own sequence alone, bit for bit: see reference/kernels.h for the order of sums.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "infer/cache/kv_cache.h"
#include "infer/cpu/aligned_vector.h"
#include "infer/model/model.h"
#include "infer/reference/kernels.h"

namespace folio::infer {

struct Row {
  int32_t token;
  SequenceId sequence;
  int64_t position;  ///< the next of its sequence: rows of one sequence are in order
  bool wants_logits = true;
};

/// Sees each named intermediate of the rows in hand: values is (n_rows, values.size() / n_rows). Names:
/// "embedding"; "layers.N." before "attention_norm", "query" and "key" (both rotated), "value", "heads" (before Wo),
/// "attention_residual", "ffn_norm", "ffn_hidden" (silu(gate) * up), "ffn_residual"; and, for the rows that want
/// logits, "norm" and "logits". A call with more than kMaxRows rows is seen in slices.
using Observer = std::function<void(const std::string& name, std::span<const float> values, size_t n_rows)>;

struct EngineOptions {
  size_t n_threads = 0;                       ///< 0: all cores of this process
  int64_t max_positions = 0;                  ///< positions that the cache holds for each sequence; 0: one full context
  int64_t n_sequences = 1;                    ///< sequences that the cache has room for
  const kernels::Kernels* kernels = nullptr;  ///< null: the best of this machine, or what FOLIO_ISA names
};

class Engine {
 public:
  static constexpr size_t kMaxRows = 256;  ///< rows that go through a layer together; longer batches go in slices

  /// `model` has to outlive the engine. Throws core::Error if the model's heads are wider than the kernels take.
  explicit Engine(const Model& model, const EngineOptions& options = {});

  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] KvCache& cache() { return cache_; }
  [[nodiscard]] const kernels::Kernels& kernels() const { return kernels_; }
  [[nodiscard]] size_t n_threads() const { return pool_.size(); }

  /// Runs the rows and stores their keys and values. `logits` is (rows that want logits, vocab_size), in row order.
  /// Throws core::Error, and changes nothing, if a token, a sequence or a position is not valid or the cache is full.
  void forward(std::span<const Row> rows, std::span<float> logits, const Observer& observer = {});

 private:
  struct Projection {
    const Matrix& weight;  ///< (n_out, k)
    float* out;            ///< (n_rows, n_out)
  };

  void check(std::span<const Row> rows, std::span<const float> logits) const;
  void reserve(std::span<const Row> rows);
  void extend_rope(size_t n_positions);
  void forward_slice(std::span<const Row> rows, std::span<float> logits, const Observer& observer);

  void embed(std::span<const Row> rows);
  void normalize(const float* x, const float* weight, size_t n_rows, float* out);
  void project(const float* x, size_t n_rows, size_t k, std::span<const Projection> projections,
               bool accumulate = false);
  kernels::QuantizedRows quantize(const float* x, size_t n_rows, size_t k);
  void rotate_and_store(std::span<const Row> rows, size_t layer);
  void attend(std::span<const Row> rows, std::span<const size_t> runs, size_t layer);
  void activate(size_t n_rows);
  size_t gather_wanted(std::span<const Row> rows);

  const Model& model_;
  const core::ModelConfig& config_;
  const kernels::Kernels& kernels_;
  core::ThreadPool pool_;
  KvCache cache_;

  AlignedVector<float> rope_cos_;  ///< (positions so far, head_dim)
  AlignedVector<float> rope_sin_;  ///< (positions so far, head_dim), negative at even dimensions

  // What flows through a layer; rows are those of a slice.
  AlignedVector<float> x_;       ///< (rows, dim): the residual stream
  AlignedVector<float> normed_;  ///< (rows, dim)
  AlignedVector<float> q_;       ///< (rows, dim)
  AlignedVector<float> k_;       ///< (rows, kv_dim)
  AlignedVector<float> v_;       ///< (rows, kv_dim)
  AlignedVector<float> heads_;   ///< (rows, dim): attention's output before Wo
  AlignedVector<float> gate_;    ///< (rows, hidden_dim)
  AlignedVector<float> up_;      ///< (rows, hidden_dim)

  // The rows that a matrix in groups multiplies: see kernels::QuantizedRow. k is dim or hidden_dim.
  std::vector<int8_t> quantized_;   ///< (rows, k)
  std::vector<float> scales_;       ///< (rows, k / 32)
  std::vector<float> scaled_sums_;  ///< (rows, k / 32)
  std::vector<int32_t> sums_;       ///< (rows, k / 16)
};

}  // namespace folio::infer
