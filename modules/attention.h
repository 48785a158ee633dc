// Causal self-attention with rotary positions: multi-head, grouped-query and multi-query by the number of key/value
// heads. Position t attends to positions 0 .. t, or with a sliding window W to t - W + 1 .. t.
// The plain form is the formula written out; the fused form, the default, is LibTorch's kernel for the same formula.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any_value.h>
#include <torch/nn/pimpl.h>

#include "core/model_config.h"
#include "modules/linear.h"
#include "modules/named_tensor.h"
#include "modules/rms_norm.h"
#include "modules/rope.h"

namespace folio::nn {

/// The operations of LibTorch one by one, or fused ones: a model's blocks, its head and its dropout with hand-written
/// backward passes (fused/), and attention by LibTorch's kernel.
enum class Form { Plain, Fused };

/// y = wo · concat over heads of softmax(q kᵀ / √head_dim + causal mask) v, where q, k, v = wq x, wk x, wv x, and q and
/// k are rotated. Query head h reads key/value head h / (n_heads / n_kv_heads). A family may add biases to wq, wk and
/// wv, and normalize each head of q and k, or all at once, before they are rotated (Henry et al., "Query-Key
/// Normalization", 2020). A family may give each head a sink, a score more whose value is 0
/// (gpt-oss, 2025), and wo a bias. Where a configuration has them: another scale than 1 / √head_dim, a soft cap on the
/// scores (Gemma 2, 2024), and rotations of a part of each head. Source: Vaswani et al., 2017, section 3.2; grouped
/// queries: Ainslie et al., "GQA", 2023, section 2.2.
class AttentionImpl : public torch::nn::Module {
 public:
  /// All layers may share one `rope`. `dropout` is the probability that an attention weight is dropped in training.
  /// Throws core::Error where the configuration is invalid or dropout is not in [0, 1).
  AttentionImpl(const core::ModelConfig& config, RopeCache rope, double dropout = 0.0);

  /// x [B, T, dim] to [B, T, dim]. A row may hold several sequences behind each other, which don't see each other:
  /// `starts`, int64 [B, T], says of each position where its own begins. Since a rotated score depends on the distance
  /// alone, each is then what it is by itself. Throws core::Error for another shape, and where T exceeds the context.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {});

  /// The attention weights of the plain form without dropout, [B, n_heads, T, T]: row t has the weight of each position
  /// in the output at position t; with a sink they sum to less than 1. Throws as forward does.
  torch::Tensor weights(const torch::Tensor& x);

  Form form = Form::Fused;

  /// The queries, keys and values, with q and k rotated: q [B, n_heads, T, head_dim]; k and v [B, n_kv_heads, T,
  /// head_dim].
  struct Heads {
    torch::Tensor q, k, v;
  };
  Heads project(const torch::Tensor& x, int64_t first_position = 0);

  /// What becomes of a product q · k: it is divided, and with a cap (0: none) s becomes cap · tanh(s / cap).
  struct Scores {
    double divisor;
    double cap;
  };

  /// The weighted means of the values, [B, n_heads, T, head_dim].
  torch::Tensor attend(const Heads& heads, const torch::Tensor& starts = {});

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())})

  // For experiments that use the same projections with another attention: without a mask, or over a cache.
  torch::Tensor attend_plain(const Heads& heads, const torch::Tensor& starts = {});
  torch::Tensor attend_fused(const Heads& heads, const torch::Tensor& starts = {});
  torch::Tensor output(
      const torch::Tensor& y);  ///< applies wo to the heads' outputs, [B, n_heads, T, head_dim] to [B, T, dim]

  int64_t dim_, n_heads_, n_kv_heads_, window_, rotated_;
  Scores scores_;
  bool norms_all_;  ///< q_norm and k_norm are over all heads at once
  double dropout_;
  RopeCache rope_;
  Linear wq_, wk_, wv_, wo_;
  RMSNorm q_norm_, k_norm_;  ///< empty in families that have none
  NamedTensor sinks_;        ///< [n_heads], likewise
};
TORCH_MODULE(Attention);

}  // namespace folio::nn
