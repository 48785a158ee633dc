// A model file, ready to run: its configuration and its weights. Floats and 16-bit numbers are used where they are
// mapped (or copied where they are not aligned); block types are repacked into groups, and the memory of their pages is
// given back, so that there is one copy of the weights.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "core/thread_pool.h"
#include "core/weights.h"
#include "infer/cpu/matrix.h"

namespace folio::infer {

struct LayerWeights {
  const float* attention_norm;  ///< (dim)
  Matrix wq;                    ///< (dim, dim)
  Matrix wk;                    ///< (kv_dim, dim)
  Matrix wv;                    ///< (kv_dim, dim)
  Matrix wo;                    ///< (dim, dim)
  const float* ffn_norm;        ///< (dim)
  Matrix w1;                    ///< (hidden_dim, dim): the gate
  Matrix w3;                    ///< (hidden_dim, dim): up
  Matrix w2;                    ///< (dim, hidden_dim): down
};

class Model {
 public:
  /// Of a model in any format that core/formats/model_files.h reads. Block types are repacked by `n_threads` (0: all
  /// cores). Throws core::Error if a tensor is missing, misshapen or of a type that weights don't have.
  explicit Model(const std::filesystem::path& path, size_t n_threads = 0);
  explicit Model(core::StoredModel stored, size_t n_threads = 0);

  [[nodiscard]] const core::ModelConfig& config() const { return stored_.config; }
  [[nodiscard]] const core::StoredModel& stored() const { return stored_; }
  /// The bytes of all weights in memory, each read once for a token in decoding (the embedding where it is the output,
  /// too).
  [[nodiscard]] uint64_t weight_bytes() const { return weight_bytes_; }
  /// Of them those that were repacked, and how long that took: 0 where the file has no block types.
  [[nodiscard]] uint64_t repacked_bytes() const { return repacked_bytes_; }
  [[nodiscard]] double repack_seconds() const { return repack_seconds_; }

  Matrix token_embedding;  ///< (vocab_size, dim)
  std::vector<LayerWeights> layers;
  const float* output_norm = nullptr;  ///< (dim)
  Matrix output;                       ///< (vocab_size, dim): token_embedding where it is tied

 private:
  struct Free {
    void operator()(uint8_t* p) const;
  };

  const float* vector(const core::TensorView& tensor);
  Matrix matrix(const core::TensorView& tensor);
  Matrix groups(const core::TensorView& tensor, core::ThreadPool& pool, size_t& offset);
  void place(const core::TensorSpec& spec, const core::TensorView& tensor, const Matrix& matrix);

  core::StoredModel stored_;
  std::vector<std::vector<std::byte>> copies_;
  std::unique_ptr<uint8_t, Free> repacked_;
  uint64_t weight_bytes_ = 0;
  uint64_t repacked_bytes_ = 0;
  double repack_seconds_ = 0.0;
};

}  // namespace folio::infer
