// Causal self-attention with rotary positions: multi-head, grouped-query and multi-query by the number of key/value
// heads. Position t attends to positions 0 .. t.
//
//     y = wo · concat over heads of softmax(q kᵀ / √head_dim + causal mask) v,  q, k, v = wq x, wk x, wv x
//     x, y [B, T, dim], q [B, n_heads, T, head_dim], k and v [B, n_kv_heads, T, head_dim], q and k rotated
//
//     nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
//     nn::Attention attention(config, rope);
//     torch::Tensor y = attention->forward(x);
//
// Query head h reads key/value head h / (n_heads / n_kv_heads). Sources: Vaswani et al., 2017, section 3.2; grouped
// queries: Ainslie et al., "GQA", 2023, section 2.2.
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
  /// `dropout` is the probability that an attention weight is dropped in training. Throws core::Error where the
  /// configuration is invalid or dropout is not in [0, 1).
  explicit AttentionImpl(const core::ModelConfig& config, RopeCache rope, double dropout = 0.0,
                         const Linears& linears = Linears(), const std::string& name = "attention",
                         bool qkv_bias = false, bool output_bias = false);

  /// x [B, T, dim] to [B, T, dim]; `starts` as in mask.h: packed sequences give the same result as separate ones, since
  /// RoPE is relative. Throws core::Error for another shape, and where T exceeds the context.
  virtual torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {}) {
    return output(attend(project(x), starts));
  }
  /// Computes attention by its formula instead of LibTorch's kernel, which does not store the weights.
  bool written_out = false;
  /// The steps of forward(): queries, keys (both rotated) and values; weighted means of the values [B, n_heads, T,
  /// head_dim]; weights [B, n_heads, T, T], a row for each position of the output; and the output projection.
  struct Heads {
    torch::Tensor q, k, v;
  };
  Heads project(const torch::Tensor& x, int64_t first_position = 0);
  torch::Tensor attend(const Heads& heads, const torch::Tensor& starts = {});
  torch::Tensor weights(const Heads& heads, const torch::Tensor& starts = {});
  torch::Tensor weights(const torch::Tensor& x) { return weights(project(x)); }
  torch::Tensor output(const torch::Tensor& y) { return wo_->forward(y.transpose(1, 2).flatten(2)); }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())})

  /// Changes queries [B, T, n_heads, head_dim] and keys [B, T, n_kv_heads, head_dim] before they are rotated.
  virtual void before_rotation(torch::Tensor& /*q*/, torch::Tensor& /*k*/) {}
  /// The mask of T positions (mask.h), undefined where it is the plain causal one; and the softmax where it is true.
  [[nodiscard]] virtual torch::Tensor mask(int64_t T, torch::Device device, const torch::Tensor& starts) const {
    return starts.defined() ? causal_mask(T, device, starts) : torch::Tensor();
  }
  virtual torch::Tensor softmax(const torch::Tensor& scores, const torch::Tensor& mask);

  int64_t dim_, n_heads_, n_kv_heads_;
  double divisor_;  ///< of q · k: √head_dim
  double dropout_;
  bool has_kernel_ = true;  ///< LibTorch's scaled_dot_product_attention computes this attention
  RopeCache rope_;
  Linear wq_, wk_, wv_, wo_;
};
TORCH_MODULE(Attention);

}  // namespace folio::nn
