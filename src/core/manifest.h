// The tensor manifest: the only list of the tensors' names and shapes and of their order in a file.
// Readers look tensors up by it, and writers follow its order.
#pragma once

#include <string>
#include <vector>

#include "core/model_config.h"

namespace folio::core {

/// The purpose of a tensor, in the order of a file (AttentionNorm to W2 in each layer).
/// Not every family, and not every layer, has all. Bq to Bv are biases; QueryNorm and KeyNorm are over each head, or
/// over all. Router to ExpertW2 are of layers with experts, whose W1, W3 and W2 belong to the experts that all tokens
/// take.
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
  PostAttentionNorm,
  FfnNorm,
  Router,         ///< [experts, dim]
  SelectionBias,  ///< [experts]
  ExpertW1,       ///< [experts, expert_dim, dim], as ExpertW3
  ExpertW3,
  ExpertW2,    ///< [experts, dim, expert_dim]
  SharedGate,  ///< [dim]
  W1,
  W3,
  W2,
  PostFfnNorm,
  OutputNorm,
  Output
};

/// Where a file has several tensors as one, such as Wq, Wk and Wv: its rows [first, first + shape[0]) of `rows`.
struct Fused {
  std::string name;  ///< empty: the tensor is by itself
  int64_t first = 0;
  int64_t rows = 0;
};

struct TensorSpec {
  Role role;
  int64_t layer = -1;          ///< -1 outside the layers
  std::vector<int64_t> shape;  ///< row-major: a matrix is [out, in], a stack of matrices [experts, out, in]
  std::string gguf_name;       ///< "blk.0.attn_q.weight"
  /// "model.layers.0.self_attn.q_proj.weight". Hugging Face's files have each matrix of a stack as a tensor of its own:
  /// hf_part(), with "{}" in this name for its index.
  std::string hf_name;
  std::string module_name;  ///< "layers.0.attention.wq.weight": the LibTorch module's parameter
  bool rope_permuted;       ///< Hugging Face's file has its rows in another order: see rope_layout.h
  Fused gguf_fused{};       ///< in GGUFs of the family, or of some programs (gguf_writes_fused)
  Fused hf_fused{};
  bool gguf_writes_fused = false;

  [[nodiscard]] int64_t elements() const;
  [[nodiscard]] bool is_stack() const { return shape.size() == 3; }
  /// Tensors that Hugging Face's files have of it, 1 or the experts, and the name of one.
  [[nodiscard]] int64_t hf_parts() const { return is_stack() ? shape[0] : 1; }
  [[nodiscard]] std::string hf_part(int64_t index) const;
  [[nodiscard]] std::vector<int64_t> hf_shape() const;  ///< of a part
};

/// All tensors of a model, in file order: with the parts of its family, and without Output if embeddings are tied.
[[nodiscard]] std::vector<TensorSpec> tensor_manifest(const ModelConfig& config);

}  // namespace folio::core
