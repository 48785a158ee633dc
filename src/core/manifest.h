// The tensor manifest: the only list of the tensors' names and shapes and of their order in a file.
// Readers look tensors up by it, and writers follow its order.
#pragma once

#include <string>
#include <vector>

#include "core/model_config.h"

namespace folio::core {

/// The purpose of a tensor, in the order of a file (AttentionNorm to W2 in each layer).
/// Not every family, and not every layer, has all. Bq to Bv and Bo are biases; QueryNorm and KeyNorm are over each
/// head, or over all. Router to ExpertB2 are of layers with experts, whose W1, W3 and W2 belong to the experts that all
/// tokens take.
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
  AttentionSinks,  ///< [heads]
  Wo,
  Bo,
  PostAttentionNorm,
  FfnNorm,
  Router,  ///< [experts, dim]
  RouterBias,
  SelectionBias,  ///< [experts]
  ExpertW1,       ///< [experts, expert_dim, dim], as ExpertW3
  ExpertW3,
  ExpertW2,  ///< [experts, dim, expert_dim]
  ExpertB1,  ///< [experts, expert_dim], as ExpertB3
  ExpertB3,
  ExpertB2,    ///< [experts, dim]
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

/// Where Hugging Face's files have a stack [experts, out, in] transposed, and several woven into one: rows first,
/// first + step, … of each expert's matrix of `name`, whose shape there is [experts, in, step * out]. Experts' vectors
/// likewise, [experts, step * out]. In MXFP4 it is two tensors that are not transposed: NAME_blocks, U8
/// [experts, step * out, in / 32, 16], whose bytes have an even element in their low half, the next one in the high
/// half; and NAME_scales, U8 [experts, step * out, in / 32].
struct HfPacked {
  std::string name;  ///< empty: the tensor is by itself
  int64_t first = 0;
  int64_t step = 1;
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
  HfPacked hf_packed{};
  bool gguf_writes_fused = false;

  [[nodiscard]] int64_t elements() const;
  [[nodiscard]] bool is_stack() const { return shape.size() == 3; }
  /// Of the experts of which a token takes some: its first dimension is theirs.
  [[nodiscard]] bool of_experts() const;
  /// A matrix or a stack of them: neither a vector, nor the vectors of all experts.
  [[nodiscard]] bool is_matrix() const;
  /// Tensors that Hugging Face's files have of it, 1 or the experts, and the name of one.
  [[nodiscard]] int64_t hf_parts() const { return is_stack() && hf_packed.name.empty() ? shape[0] : 1; }
  [[nodiscard]] std::string hf_part(int64_t index) const;
  [[nodiscard]] std::vector<int64_t> hf_shape() const;  ///< of a part
};

/// All tensors of a model, in file order: with the parts of its family, and without Output if embeddings are tied.
[[nodiscard]] std::vector<TensorSpec> tensor_manifest(const ModelConfig& config);

/// The number of trainable parameters, by formula: V d (twice if untied) + L (2 d d_q + 2 d d_kv + 3 d h + 2 d) + d,
/// and in each layer d_q + 2 d_kv for biases and 2 d_head for norms of q and k, if the family has them.
[[nodiscard]] int64_t parameter_count(const ModelConfig& config);

}  // namespace folio::core
