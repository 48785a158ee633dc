// Shapes: B sequences, T positions, D model width, H query heads, G key/value heads, K numbers in a head.
#include "modules/attention.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {
namespace {

/// Whether position t (a row) sees position s, [T, T]. A window of 0 is none. With starts [B, T], [B, 1, T, T]: it does
/// not see what comes before its own sequence.
torch::Tensor visible(int64_t T, int64_t window, torch::Device device, const torch::Tensor& starts_BT) {
  const auto ones_TT = torch::ones({T, T}, torch::TensorOptions(torch::kBool).device(device));
  const auto causal_TT = window == 0 ? ones_TT.tril() : ones_TT.tril() & ones_TT.triu(1 - window);
  if (!starts_BT.defined()) return causal_TT;
  const auto positions_T = torch::arange(T, torch::TensorOptions(torch::kInt64).device(device));
  return causal_TT & (positions_T >= starts_BT.unsqueeze(-1)).unsqueeze(1);
}

/// softmax(q kᵀ / √K + mask) as [B, H, T, T]; each key head is shared by H / G query heads.
torch::Tensor causal_weights(const torch::Tensor& q_BHTK, const torch::Tensor& k_BGTK, int64_t window,
                             const torch::Tensor& starts_BT = {}) {
  const int64_t T = q_BHTK.size(2);
  const auto k_BHTK = k_BGTK.repeat_interleave(q_BHTK.size(1) / k_BGTK.size(1), 1);
  const auto scores_BHTT = q_BHTK.matmul(k_BHTK.transpose(-2, -1)) / std::sqrt(q_BHTK.size(-1));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return scores_BHTT.masked_fill(~visible(T, window, q_BHTK.device(), starts_BT), -kInfinity).softmax(-1);
}

}  // namespace

AttentionImpl::AttentionImpl(const core::ModelConfig& config, RopeCache rope, double dropout)
    : dim_(config.dim),
      n_heads_(config.n_heads),
      n_kv_heads_(config.n_kv_heads),
      window_(config.sliding_window),
      dropout_(dropout),
      rope_(std::move(rope)),
      wq_(nullptr),
      wk_(nullptr),
      wv_(nullptr),
      wo_(nullptr),
      q_norm_(nullptr),
      k_norm_(nullptr) {
  core::validate(config, "Attention");
  core::require(dropout >= 0 && dropout < 1, "Attention: dropout has to be in [0, 1), but is {}", dropout);
  register_module("rope", rope_);
  const core::FamilyInfo& family = core::info(config.family);
  wq_ = register_module("wq", Linear(dim_, config.query_dim(), family.qkv_bias));
  wk_ = register_module("wk", Linear(dim_, config.kv_dim(), family.qkv_bias));
  wv_ = register_module("wv", Linear(dim_, config.kv_dim(), family.qkv_bias));
  wo_ = register_module("wo", Linear(config.query_dim(), dim_));
  if (family.qk_norm) {
    q_norm_ = register_module("q_norm", RMSNorm(config.head_dim, config.norm_eps));
    k_norm_ = register_module("k_norm", RMSNorm(config.head_dim, config.norm_eps));
  }
}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x_BTD, const torch::Tensor& starts_BT) {
  return output(attend(project(x_BTD), starts_BT));
}

torch::Tensor AttentionImpl::attend(const Heads& heads, const torch::Tensor& starts_BT) {
  return form == Form::Fused ? attend_fused(heads, starts_BT) : attend_plain(heads, starts_BT);
}

torch::Tensor AttentionImpl::output(const torch::Tensor& y_BHTK) {
  return wo_->forward(y_BHTK.transpose(1, 2).flatten(2));
}

torch::Tensor AttentionImpl::weights(const torch::Tensor& x_BTD) {
  const Heads heads = project(x_BTD);
  return causal_weights(heads.q, heads.k, window_);
}

AttentionImpl::Heads AttentionImpl::project(const torch::Tensor& x_BTD, int64_t first_position) {
  require_BTD(x_BTD, dim_, "Attention");
  // One product with the three weights concatenated was measured, and is not faster at this size.
  auto q_BTHK = wq_->forward(x_BTD).unflatten(-1, {n_heads_, -1});
  auto k_BTGK = wk_->forward(x_BTD).unflatten(-1, {n_kv_heads_, -1});
  if (q_norm_) {
    q_BTHK = q_norm_->forward(q_BTHK);
    k_BTGK = k_norm_->forward(k_BTGK);
  }
  const auto v_BTGK = wv_->forward(x_BTD).unflatten(-1, {n_kv_heads_, -1});
  return {.q = rope_->apply(q_BTHK, first_position).transpose(1, 2),
          .k = rope_->apply(k_BTGK, first_position).transpose(1, 2),
          .v = v_BTGK.transpose(1, 2)};
}

torch::Tensor AttentionImpl::attend_plain(const Heads& heads, const torch::Tensor& starts_BT) {
  const auto weights_BHTT =
      torch::dropout(causal_weights(heads.q, heads.k, window_, starts_BT), dropout_, is_training());
  return weights_BHTT.matmul(heads.v.repeat_interleave(n_heads_ / n_kv_heads_, 1));
}

torch::Tensor AttentionImpl::attend_fused(const Heads& heads, const torch::Tensor& starts_BT) {
  const int64_t T = heads.q.size(2);
  const bool masked = (window_ > 0 && window_ < T) || starts_BT.defined();
  std::optional<torch::Tensor> mask;
  if (masked) mask = visible(T, window_, heads.q.device(), starts_BT);
  return at::scaled_dot_product_attention(heads.q, heads.k, heads.v, mask, is_training() ? dropout_ : 0.0,
                                          /*is_causal=*/!masked, /*scale=*/{},
                                          /*enable_gqa=*/n_kv_heads_ != n_heads_);
}

}  // namespace folio::nn
