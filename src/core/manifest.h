// The tensor manifest: the only list of the tensors' names and shapes and of their order in a file.
// Readers look tensors up by it, and writers follow its order.
#pragma once

#include <string>
#include <vector>

#include "core/model_config.h"

namespace folio::core {

/// The purpose of a tensor, in the order of a file (AttentionNorm to W2 in each layer).
/// Bq to Bv are biases; QueryNorm and KeyNorm are over each head. Not every family has them.
enum class Role {
  TokenEmbedding,
  AttentionNorm,
  Wq,
  Wk,
  Wv,
  Bq,
  Bk,
  Bv,
  QueryNorm,
  KeyNorm,
  Wo,
  FfnNorm,
  W1,
  W3,
  W2,
  OutputNorm,
  Output
};

struct TensorSpec {
  Role role;
  int64_t layer = -1;          ///< -1 outside the layers
  std::vector<int64_t> shape;  ///< row-major: a matrix is [out, in]
  std::string gguf_name;       ///< "blk.0.attn_q.weight"
  std::string hf_name;         ///< "model.layers.0.self_attn.q_proj.weight"
  std::string module_name;     ///< "layers.0.attention.wq.weight": the LibTorch module's parameter
  bool rope_permuted;          ///< Hugging Face's file has its rows in another order: see rope_layout.h

  [[nodiscard]] int64_t elements() const;
};

/// All tensors of a model, in file order: with the parts of its family, and without Output if embeddings are tied.
[[nodiscard]] std::vector<TensorSpec> tensor_manifest(const ModelConfig& config);

}  // namespace folio::core
