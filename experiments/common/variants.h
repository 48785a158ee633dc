// Sound variants of a model's parts that studies compare, and the way to put any part, sound or broken, into a block.
#pragma once

#include <functional>

#include "experiments/common/training.h"
#include "modules/attention.h"

namespace folio::experiments {

/// Replaces some parts of a block; `rope` is the one that all of the model's layers share.
using Change = std::function<void(nn::BlockParts& parts, nn::RopeCache rope)>;

/// Llama's parts but for what `change` does to the parts of each. Without a `rope`, it is the configuration's own.
[[nodiscard]] ModelParts changed_blocks(const core::ModelConfig& config, Change change = {},
                                        nn::RopeCache rope = nullptr);

/// Blocks without their two norms. (The model's last norm, before the head, stays.)
[[nodiscard]] ModelParts blocks_without_norms(const core::ModelConfig& config);

/// The rotations of config.context_length positions, with position p at the place p / scale: linear scaling, also
/// known as position interpolation. Source: Chen et al., "Extending Context Window of Large Language Models via
/// Positional Interpolation", 2023, equation 4.
[[nodiscard]] nn::RopeCache linear_rope(const core::ModelConfig& config, double scale);

/// Rotations by theta · scale^(d / (d - 2)), d = head_dim: the slowest pair turns scale times slower, the fastest as
/// before. Source: "NTK-aware scaled RoPE", 2023; Peng et al., "YaRN", 2023, section 3.1.
[[nodiscard]] nn::RopeCache ntk_rope(const core::ModelConfig& config, double scale);

/// Rotations by no angle: attention that doesn't know where a token stands.
[[nodiscard]] nn::RopeCache no_rope(const core::ModelConfig& config);

/// Attention that decodes: it sees one position at a time and keeps the keys and values of those before.
class CachedAttentionImpl : public nn::AttentionImpl {
 public:
  using nn::AttentionImpl::AttentionImpl;

  /// x [B, 1, dim], the position after those that were seen, to [B, 1, dim].
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {}) override;

 private:
  torch::Tensor k_, v_;  ///< [B, n_kv_heads, positions, head_dim]; undefined before the first
};
TORCH_MODULE(CachedAttention);

/// The logits of `tokens` [B, T], fed one position at a time to a copy of a model whose attention keeps a cache: as an
/// engine decodes. `change` is what the model's blocks were made with; its attention is replaced.
[[nodiscard]] torch::Tensor decode_with_cache(const nn::Llama& model, const torch::Tensor& tokens,
                                              const Change& change);

/// The feed-forward of the Transformer before SwiGLU, without biases: y = w2 f(w1 x), two matrices instead of three.
/// Sources: ReLU, max(0, z): Vaswani et al., 2017, section 3.3; GELU, z P(Z <= z) for a standard normal Z: Hendrycks &
/// Gimpel, "Gaussian Error Linear Units", 2016, section 2.
class PlainFeedForwardImpl : public torch::nn::Module {
 public:
  enum class Activation { ReLU, GELU };

  /// w1 [hidden_dim, dim] and w2 [dim, hidden_dim].
  PlainFeedForwardImpl(int64_t dim, int64_t hidden_dim, Activation activation);

  torch::Tensor forward(const torch::Tensor& x);  ///< [B, T, dim] to [B, T, dim]

 private:
  Activation activation_;
  torch::nn::Linear w1_, w2_;
};
TORCH_MODULE(PlainFeedForward);

/// Llama's blocks with that feed-forward, of the width that gives it as many parameters as SwiGLU has: 3/2 hidden_dim.
/// Throws core::Error for an odd hidden_dim.
[[nodiscard]] ModelParts blocks_with_plain_feed_forward(const core::ModelConfig& config,
                                                        PlainFeedForwardImpl::Activation activation);

/// Draws the matrices that read the stream in every feed-forward (w1, w3) anew from N(0, 1/dim): what they return is
/// then as large as what they read, at any width. With nn::initialize's N(0, 0.02²) it is 0.02 √dim of that.
void draw_feed_forwards_by_width(nn::Llama& model);

/// Draws every matrix of the blocks anew from N(0, 1/columns): each then returns what is as large as what it reads.
void draw_blocks_by_width(nn::Llama& model);

/// Blocks without their attention, or without their feed-forward, and without the norm before it.
[[nodiscard]] ModelParts blocks_without_attention(const core::ModelConfig& config);
[[nodiscard]] ModelParts blocks_without_feed_forward(const core::ModelConfig& config);

}  // namespace folio::experiments
