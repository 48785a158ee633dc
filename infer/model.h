// A model file, ready to run: its configuration and views of its weights in the mapping. Nothing is copied.
#pragma once

#include <filesystem>
#include <vector>

#include "core/gguf.h"
#include "core/model_config.h"

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
  /// Maps a GGUF of architecture `llama` with F32 tensors.
  /// Throws core::Error if a tensor is missing, misshapen or of another type.
  explicit Model(const std::filesystem::path& path);

  [[nodiscard]] const core::ModelConfig& config() const { return config_; }
  [[nodiscard]] const core::GgufFile& file() const { return file_; }
  /// The bytes of all tensors, each read once for a token in decoding (the embedding where it is the output, too).
  [[nodiscard]] uint64_t weight_bytes() const { return weight_bytes_; }

  const float* token_embedding = nullptr;  ///< (vocab_size, dim)
  std::vector<LayerWeights> layers;
  const float* output_norm = nullptr;  ///< (dim)
  const float* output = nullptr;       ///< (vocab_size, dim): token_embedding where it is tied

 private:
  core::GgufFile file_;
  core::ModelConfig config_;
  uint64_t weight_bytes_ = 0;
};

}  // namespace folio::infer
