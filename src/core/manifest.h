// The tensor manifest: the only list of tensor names, shapes and file order. Readers find tensors by its names; writers
// use its order.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/model_config.h"

namespace folio::core {

/// The role of a tensor, in file order. AttentionNorm to PostFfnNorm are tensors of a layer; not every family or layer
/// has all of them. Bq, Bk, Bv and Bo are biases. QueryNorm and KeyNorm normalize each head, or all heads at once.
/// Router to SharedGate belong to layers with experts, where W1, W3 and W2 are the shared experts. The MTP module
/// predicts the token after the next; it is layer n_layers and also has MtpEmbeddingNorm to MtpOutputNorm.
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
  AttentionSinks,   ///< shape [heads]: an extra score per head in the softmax, whose value vector is 0
  WqA,              ///< shape [q_lora_rank, dim]
  QueryLatentNorm,  ///< shape [q_lora_rank]
  WqB,              ///< shape [heads * head_dim, q_lora_rank]
  WkvA,             ///< shape [kv_lora_rank + qk_rope_head_dim, dim]: the latent, then the part of the key with RoPE
  LatentNorm,       ///< shape [kv_lora_rank]
  WkB,              ///< shape [heads, kv_lora_rank, qk_nope_head_dim]: each head's key matrix, transposed
  WvB,              ///< shape [heads, v_head_dim, kv_lora_rank]
  Wo,
  Bo,
  PostAttentionNorm,
  FfnNorm,
  Router,  ///< shape [experts, dim]
  RouterBias,
  SelectionBias,  ///< shape [experts]: added to the experts' scores for the selection, not to their weights
  ExpertW1,       ///< shape [experts, expert_dim, dim], like ExpertW3
  ExpertW3,
  ExpertW2,  ///< shape [experts, dim, expert_dim]
  ExpertB1,  ///< shape [experts, expert_dim], like ExpertB3
  ExpertB3,
  ExpertB2,    ///< shape [experts, dim]
  SharedGate,  ///< shape [dim]: w in sigmoid(w · x), which multiplies the shared experts' output
  W1,
  W3,
  W2,
  PostFfnNorm,
  MtpEmbeddingNorm,
  MtpHiddenNorm,
  MtpProjection,  ///< shape [dim, 2 dim]; input: the normalized embedding, then the normalized hidden state
  MtpOutputNorm,
  OutputNorm,
  Output
};

/// A tensor's rows in a fused tensor, such as Wq in one matrix of Wq, Wk and Wv: [first, first + n), where n is the
/// tensor's own number of rows. The fused tensor has `rows` rows.
struct FusedRows {
  std::string name;  ///< name of the fused tensor; empty: not fused
  int64_t first = 0;
  int64_t rows = 0;
};

/// Position in a Hugging Face tensor `name` that contains several manifest tensors: element (e, r, c) of a stack is
/// element first + e * steps[0] + r * steps[1] + c * steps[2] of `name`. There are two cases:
/// Experts of gpt-oss: a stack [experts, out, in] is every steps[1]-th column of [experts, in, steps[1] * out], and its
/// biases are every steps[1]-th column of [experts, steps[1] * out]. MXFP4 uses two U8 tensors: NAME_blocks, [experts,
/// steps[1] * out, in / 32, 16], whose byte i has element 2i of a block in its low half and 2i + 1 in its high half;
/// and NAME_scales, [experts, steps[1] * out, in / 32].
/// Latent attention: [heads * (nope + v), rank] has, for each head, WkB's matrix transposed, then WvB's matrix.
struct HfPacked {
  std::string name;  ///< name of the Hugging Face tensor that contains this one; empty: not packed
  std::vector<int64_t> shape{};
  int64_t first = 0;
  std::array<int64_t, 3> steps{};
  bool last = true;  ///< no later tensor of the manifest is in the same Hugging Face tensor
};

struct TensorSpec {
  Role role;
  int64_t layer = -1;          ///< -1 for tensors outside the layers
  std::vector<int64_t> shape;  ///< row-major: a matrix is [out, in], a stack of matrices [experts, out, in]
  std::string gguf_name;       ///< such as "blk.0.attn_q.weight"
  /// Name in Hugging Face files, such as "model.layers.0.self_attn.q_proj.weight". For a stack that is stored as one
  /// tensor per matrix, "{}" replaces the matrix's index: see hf_part().
  std::string hf_name;
  std::string module_name;  ///< parameter of the LibTorch module, such as "layers.0.attention.wq.weight"
  bool rope_permuted;       ///< Hugging Face files have the rows in another order (rope_layout.h)
  FusedRows gguf_fused{};   ///< fused tensor that GGUF files may contain; written only if gguf_writes_fused
  FusedRows hf_fused{};
  HfPacked hf_packed{};
  bool gguf_writes_fused = false;

  [[nodiscard]] int64_t elements() const;
  /// Returns true if the files that Folio writes store the tensor as rows of a fused one.
  [[nodiscard]] bool is_fused() const { return gguf_writes_fused || !hf_fused.name.empty(); }
  [[nodiscard]] bool is_stack() const { return shape.size() == 3; }
  /// Returns true for tensors of the routed experts, whose first dimension is the index of the expert.
  [[nodiscard]] bool of_experts() const;
  /// Returns true for a matrix or a stack of matrices, false for a vector or one vector per expert.
  [[nodiscard]] bool is_matrix() const;
  /// Returns how many Hugging Face tensors store this tensor: one per expert for most stacks, otherwise 1.
  [[nodiscard]] int64_t hf_parts() const { return is_stack() && hf_packed.name.empty() ? shape[0] : 1; }
  [[nodiscard]] std::string hf_part(int64_t index) const;
  [[nodiscard]] std::vector<int64_t> hf_shape() const;  ///< returns the shape of each of the hf_parts() tensors
};

/// Returns all tensors of a model in file order: those of its family, and Output unless embeddings are tied. If
/// ModelConfig::n_tokens_ahead is 1, layer n_layers is the MTP module.
[[nodiscard]] std::vector<TensorSpec> tensor_manifest(const ModelConfig& config);

/// Returns the number of parameters: the elements of all tensors in the manifest, including selection biases.
[[nodiscard]] int64_t parameter_count(const ModelConfig& config);

}  // namespace folio::core
