// A model file, ready to run: its configuration and its weights, used where they are mapped. What is not stored as
// aligned floats with adjacent RoPE pairs is copied.
#pragma once

#include <filesystem>
#include <vector>

#include "core/weights.h"

namespace folio::infer {

struct LayerWeights {
  const float* attention_norm;  ///< (dim)
  const float* wq;              ///< (dim, dim)
  const float* wk;              ///< (kv_dim, dim)
  const float* wv;              ///< (kv_dim, dim)
  const float* wo;              ///< (dim, dim)
  const float* ffn_norm;        ///< (dim)
  const float* w1;              ///< (hidden_dim, dim): the gate
  const float* w3;              ///< (hidden_dim, dim): up
  const float* w2;              ///< (dim, hidden_dim): down
};

class Model {
 public:
  /// Of a model in any format that core/model_files.h reads, with F32, F16 or BF16 tensors. Throws core::Error if a
  /// tensor is missing, misshapen or of another type.
  explicit Model(const std::filesystem::path& path);
  explicit Model(core::StoredModel stored);

  [[nodiscard]] const core::ModelConfig& config() const { return stored_.config; }
  [[nodiscard]] const core::StoredModel& stored() const { return stored_; }
  /// The bytes of all tensors, each read once for a token in decoding (the embedding where it is the output, too).
  [[nodiscard]] uint64_t weight_bytes() const { return weight_bytes_; }

  const float* token_embedding = nullptr;  ///< (vocab_size, dim)
  std::vector<LayerWeights> layers;
  const float* output_norm = nullptr;  ///< (dim)
  const float* output = nullptr;       ///< (vocab_size, dim): token_embedding where it is tied

 private:
  core::StoredModel stored_;
  std::vector<std::vector<float>> copies_;
  uint64_t weight_bytes_ = 0;
};

}  // namespace folio::infer
