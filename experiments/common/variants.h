// Correct variants of a model's parts for comparisons, and functions that build blocks with any replaced part.
#pragma once

#include <functional>

#include "experiments/common/training.h"
#include "modules/attention.h"

namespace folio::experiments {

/// A function that replaces parts of a block. `rope` is shared by all layers of the model.
using Change = std::function<void(nn::BlockParts& parts, nn::RopeCache rope)>;

/// Returns Llama's parts, to which `change` is applied in each layer. `rope` replaces the model's rotations, unless it
/// is null.
[[nodiscard]] ModelParts changed_blocks(Change change, nn::RopeCache rope = nullptr);

/// Returns blocks without their two norms. The model's final norm remains.
[[nodiscard]] ModelParts blocks_without_norms();

/// Returns rotations for config.context_length positions, where position p has the angles of p / scale: linear scaling,
/// also called position interpolation. Source: Chen et al., "Extending Context Window of Large Language Models via
/// Positional Interpolation", 2023, equation 4.
[[nodiscard]] nn::RopeCache linear_rope(const core::ModelConfig& config, double scale);

/// Returns rotations with base theta · scale^(d / (d - 2)), d = head_dim: the slowest pair rotates `scale` times
/// slower, the fastest is unchanged. Source: "NTK-aware scaled RoPE", 2023; Peng et al., "YaRN", 2023, section 3.1.
[[nodiscard]] nn::RopeCache ntk_rope(const core::ModelConfig& config, double scale);

/// Returns rotations by angle 0: attention without position information.
[[nodiscard]] nn::RopeCache no_rope(const core::ModelConfig& config);

/// Attention for decoding: processes one position at a time and caches keys and values.
class CachedAttentionImpl : public nn::AttentionImpl {
 public:
  using nn::AttentionImpl::AttentionImpl;

  /// Appends the keys and values of x [B, 1, dim], the next position, and returns [B, 1, dim]. Ignores `starts`.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {}) override;

 private:
  torch::Tensor k_, v_;  ///< [B, n_kv_heads, positions, head_dim]; undefined before the first call
};
TORCH_MODULE(CachedAttention);

/// Returns the logits of `tokens` [B, T], computed one position at a time by a copy of the model with a KV cache.
/// `change` must be the argument of changed_blocks() with which the model was made. The copy uses CachedAttention.
[[nodiscard]] torch::Tensor decode_with_cache(const nn::Llama& model, const torch::Tensor& tokens,
                                              const Change& change);

/// The Transformer's feed-forward before SwiGLU, without biases: y = w2 f(w1 x), two matrices instead of three.
/// Sources: ReLU, max(0, z): Vaswani et al., 2017, section 3.3; GELU, z P(Z <= z) for a standard normal Z: Hendrycks &
/// Gimpel, "Gaussian Error Linear Units", 2016, section 2.
class PlainFeedForwardImpl : public torch::nn::Module {
 public:
  enum class Activation { ReLU, GELU };

  /// Creates w1 [hidden_dim, dim] and w2 [dim, hidden_dim].
  PlainFeedForwardImpl(int64_t dim, int64_t hidden_dim, Activation activation);

  torch::Tensor forward(const torch::Tensor& x);  ///< [B, T, dim] to [B, T, dim]

 private:
  Activation activation_;
  torch::nn::Linear w1_, w2_;
};
TORCH_MODULE(PlainFeedForward);

/// Returns Llama's blocks with PlainFeedForward, 3/2 hidden_dim wide for the same number of parameters as SwiGLU.
/// Throws core::Error for an odd hidden_dim.
[[nodiscard]] ModelParts blocks_with_plain_feed_forward(const core::ModelConfig& config,
                                                        PlainFeedForwardImpl::Activation activation);

/// Reinitializes every feed-forward's w1 and w3 from N(0, 1/dim), so that their outputs have the variance of their
/// inputs at any width. With nn::initialize's N(0, 0.02²), their standard deviation is 0.02 √dim times the inputs'.
void draw_feed_forwards_by_width(nn::Llama& model);

/// Reinitializes every matrix of the blocks from N(0, 1/columns), so that its outputs have the variance of its inputs.
void draw_blocks_by_width(nn::Llama& model);

/// Returns blocks in which one of the two branches, attention or the feed-forward, is omitted together with its norm.
[[nodiscard]] ModelParts blocks_without_attention();
[[nodiscard]] ModelParts blocks_without_feed_forward();

}  // namespace folio::experiments
