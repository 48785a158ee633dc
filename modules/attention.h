// Causal self-attention with rotary position embedding: position t attends to positions 0 .. t. n_kv_heads selects
// multi-head (= n_heads), grouped-query or multi-query (= 1) attention.
//
//     y = wo · concat over heads of softmax(q kᵀ / √head_dim + causal mask) v,  q, k, v = wq x, wk x, wv x
//     x, y [B, T, dim], q [B, n_heads, T, head_dim], k and v [B, n_kv_heads, T, head_dim], q and k rotated
//
//     nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
//     nn::Attention attention(config, rope);
//     torch::Tensor y = attention->forward(x);
//
// Query head h uses key/value head h / (n_heads / n_kv_heads). Sources: Vaswani et al., "Attention Is All You Need",
// 2017, section 3.2; Ainslie et al., "GQA", 2023, section 2.2.
#pragma once

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any_value.h>

#include "core/model_config.h"
#include "modules/linear.h"
#include "modules/mask.h"
#include "modules/rope.h"

namespace folio::nn {

class AttentionImpl : public torch::nn::Module {
 public:
  /// Creates a layer's attention. `dropout` is the probability of dropping an attention weight in training. Throws
  /// core::Error if the configuration is invalid or dropout is outside [0, 1).
  explicit AttentionImpl(const core::ModelConfig& config, RopeCache rope, double dropout = 0.0,
                         const Linears& linears = Linears(), const std::string& name = "attention",
                         bool qkv_bias = false, bool output_bias = false);

  /// Maps x [B, T, dim] to [B, T, dim]. With `starts` (mask.h), packed sequences give the same result as separate ones,
  /// since RoPE is relative. Throws core::Error for another shape, or if T exceeds the context.
  virtual torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {}) {
    return output(attend(project(x), starts));
  }
  bool written_out = false;  ///< compute attention by its formula instead of LibTorch's own kernel
  /// Queries [B, n_heads, T, head_dim], keys and values [B, n_kv_heads, T, head_dim]; q and k are rotated.
  struct Heads {
    torch::Tensor q, k, v;
  };
  Heads project(const torch::Tensor& x, int64_t first_position = 0);
  torch::Tensor attend(const Heads& heads, const torch::Tensor& starts = {});  ///< [B, n_heads, T, head_dim]
  /// Returns the attention weights [B, n_heads, T, T]: row t holds the weights of query t.
  torch::Tensor weights(const Heads& heads, const torch::Tensor& starts = {});
  torch::Tensor weights(const torch::Tensor& x) { return weights(project(x)); }
  torch::Tensor output(const torch::Tensor& y) { return wo_->forward(y.transpose(1, 2).flatten(2)); }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())})

  /// Hook that may modify queries [B, T, n_heads, head_dim] and keys [B, T, n_kv_heads, head_dim] before RoPE.
  virtual void before_rotation(torch::Tensor& /*q*/, torch::Tensor& /*k*/) {}
  /// Returns the mask of T positions (mask.h), or an undefined tensor for the plain causal mask.
  [[nodiscard]] virtual torch::Tensor mask(int64_t T, torch::Device device, const torch::Tensor& starts) const {
    return starts.defined() ? causal_mask(T, device, starts) : torch::Tensor();
  }
  /// Returns the softmax of scores [B, n_heads, T, T] over the keys that the mask allows.
  virtual torch::Tensor softmax(const torch::Tensor& scores, const torch::Tensor& mask);

  int64_t dim_, n_heads_, n_kv_heads_;
  double divisor_;  ///< scores are q · k / divisor_, by default √head_dim
  double dropout_;
  bool has_kernel_ = true;  ///< false if LibTorch's scaled_dot_product_attention cannot compute this attention
  RopeCache rope_;
  Linear wq_, wk_, wv_, wo_;
};
TORCH_MODULE(Attention);

}  // namespace folio::nn
