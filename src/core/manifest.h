// The tensor manifest: the only list of the tensors' names and shapes and of their order in a file.
// Readers look tensors up by it, and writers follow its order.
#pragma once

#include <string>
#include <vector>

#include "core/model_config.h"

namespace folio::core {

/// The purpose of a tensor, in the order of a file (AttentionNorm to W2 in each layer).
enum class Role { TokenEmbedding, AttentionNorm, Wq, Wk, Wv, Wo, FfnNorm, W1, W3, W2, OutputNorm, Output };

struct TensorSpec {
  Role role;
  int64_t layer = -1;          ///< -1 outside the layers
  std::vector<int64_t> shape;  ///< row-major: a matrix is [out, in]
  std::string gguf_name;       ///< "blk.0.attn_q.weight"
  std::string hf_name;         ///< "model.layers.0.self_attn.q_proj.weight"
  std::string module_name;     ///< "layers.0.attention.wq.weight": the LibTorch module's parameter

  /// Whether the rows of this matrix are permuted in Hugging Face's layout (Wq and Wk: see rope_layout.h).
  [[nodiscard]] bool rope_permuted() const { return role == Role::Wq || role == Role::Wk; }
  [[nodiscard]] int64_t elements() const;
};

/// All tensors of a model, in file order. Models with tied embeddings have no Output.
[[nodiscard]] std::vector<TensorSpec> tensor_manifest(const ModelConfig& config);

}  // namespace folio::core
