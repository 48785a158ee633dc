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

/// softmax(scale q kᵀ + mask) as [B, H, T, T], with a cap (0: none) on the scaled scores; each key head is shared by H
/// / G query heads. A head's sink is one score more, whose weight is left out.
torch::Tensor causal_weights(const torch::Tensor& q_BHTK, const torch::Tensor& k_BGTK,
                             const AttentionImpl::Scores& scores, int64_t window, const torch::Tensor& sinks_H,
                             const torch::Tensor& starts_BT = {}) {
  const int64_t T = q_BHTK.size(2);
  const auto k_BHTK = k_BGTK.repeat_interleave(q_BHTK.size(1) / k_BGTK.size(1), 1);
  auto scores_BHTT = q_BHTK.matmul(k_BHTK.transpose(-2, -1)) / scores.divisor;
  if (scores.cap > 0) scores_BHTT = scores.cap * torch::tanh(scores_BHTT / scores.cap);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  scores_BHTT = scores_BHTT.masked_fill(~visible(T, window, q_BHTK.device(), starts_BT), -kInfinity);
  if (!sinks_H.defined()) return scores_BHTT.softmax(-1);
  const auto sinks_BHT1 = sinks_H.to(scores_BHTT.scalar_type()).view({1, -1, 1, 1}).expand({q_BHTK.size(0), -1, T, 1});
  return torch::cat({scores_BHTT, sinks_BHT1}, -1).softmax(-1).narrow(-1, 0, T);
}

}  // namespace

AttentionImpl::AttentionImpl(const core::ModelConfig& config, RopeCache rope, double dropout)
    : dim_(config.dim),
      n_heads_(config.n_heads),
      n_kv_heads_(config.n_kv_heads),
      window_(config.sliding_window),
      rotated_(config.rotated()),
      scores_{.divisor = config.attention_scale > 0 ? 1.0 / config.attention_scale
                                                    : std::sqrt(static_cast<double>(config.head_dim)),
              .cap = config.attention_cap},
      norms_all_(core::info(config.family).qk_norm == core::QkNorm::All),
      dropout_(dropout),
      rope_(std::move(rope)),
      wq_(nullptr),
      wk_(nullptr),
      wv_(nullptr),
      wo_(nullptr),
      q_norm_(nullptr),
      k_norm_(nullptr),
      sinks_(nullptr) {
  core::validate(config, "Attention");
  core::require(dropout >= 0 && dropout < 1, "Attention: dropout has to be in [0, 1), but is {}", dropout);
  register_module("rope", rope_);
  const core::FamilyInfo& family = core::info(config.family);
  wq_ = register_module("wq", Linear(dim_, config.query_dim(), config.qkv_bias()));
  wk_ = register_module("wk", Linear(dim_, config.kv_dim(), config.qkv_bias()));
  wv_ = register_module("wv", Linear(dim_, config.kv_dim(), config.qkv_bias()));
  wo_ = register_module("wo", Linear(config.query_dim(), dim_, family.output_bias));
  if (family.sinks) sinks_ = register_module("sinks", NamedTensor("weight", torch::zeros({n_heads_})));
  if (family.qk_norm != core::QkNorm::None) {
    q_norm_ = register_module("q_norm", RMSNorm(norms_all_ ? config.query_dim() : config.head_dim, config.norm_eps));
    k_norm_ = register_module("k_norm", RMSNorm(norms_all_ ? config.kv_dim() : config.head_dim, config.norm_eps));
  }
}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x_BTD, const torch::Tensor& starts_BT) {
  return output(attend(project(x_BTD), starts_BT));
}

torch::Tensor AttentionImpl::attend(const Heads& heads, const torch::Tensor& starts_BT) {
  return form == Form::Fused && scores_.cap == 0 && !sinks_ ? attend_fused(heads, starts_BT)
                                                            : attend_plain(heads, starts_BT);
}

torch::Tensor AttentionImpl::output(const torch::Tensor& y_BHTK) {
  return wo_->forward(y_BHTK.transpose(1, 2).flatten(2));
}

torch::Tensor AttentionImpl::weights(const torch::Tensor& x_BTD) {
  const Heads heads = project(x_BTD);
  return causal_weights(heads.q, heads.k, scores_, window_, sinks_ ? sinks_->value : torch::Tensor());
}

AttentionImpl::Heads AttentionImpl::project(const torch::Tensor& x_BTD, int64_t first_position) {
  require_BTD(x_BTD, dim_, "Attention");
  // One product with the three weights concatenated was measured, and is not faster at this size.
  const auto heads = [&](Linear& linear, RMSNorm& norm, int64_t n_heads) {
    const auto y = linear->forward(x_BTD);
    if (norm && norms_all_) return norm.get()->forward(y).unflatten(-1, {n_heads, -1});
    const auto y_BTHK = y.unflatten(-1, {n_heads, -1});
    return norm ? norm.get()->forward(y_BTHK) : y_BTHK;
  };
  const auto rotate = [&](const torch::Tensor& y_BTHK) {
    if (rotated_ == y_BTHK.size(-1)) return rope_->apply(y_BTHK, first_position);
    const auto rotated = rope_->apply(y_BTHK.narrow(-1, 0, rotated_), first_position);
    return torch::cat({rotated, y_BTHK.narrow(-1, rotated_, y_BTHK.size(-1) - rotated_)}, -1);
  };
  const auto q_BTHK = heads(wq_, q_norm_, n_heads_);
  const auto k_BTGK = heads(wk_, k_norm_, n_kv_heads_);
  const auto v_BTGK = wv_->forward(x_BTD).unflatten(-1, {n_kv_heads_, -1});
  return {.q = rotate(q_BTHK).transpose(1, 2), .k = rotate(k_BTGK).transpose(1, 2), .v = v_BTGK.transpose(1, 2)};
}

torch::Tensor AttentionImpl::attend_plain(const Heads& heads, const torch::Tensor& starts_BT) {
  const auto weights_BHTT = torch::dropout(
      causal_weights(heads.q, heads.k, scores_, window_, sinks_ ? sinks_->value : torch::Tensor(), starts_BT), dropout_,
      is_training());
  return weights_BHTT.matmul(heads.v.repeat_interleave(n_heads_ / n_kv_heads_, 1));
}

torch::Tensor AttentionImpl::attend_fused(const Heads& heads, const torch::Tensor& starts_BT) {
  const int64_t T = heads.q.size(2);
  const bool masked = (window_ > 0 && window_ < T) || starts_BT.defined();
  std::optional<torch::Tensor> mask;
  if (masked) mask = visible(T, window_, heads.q.device(), starts_BT);
  return at::scaled_dot_product_attention(heads.q, heads.k, heads.v, mask, is_training() ? dropout_ : 0.0,
                                          /*is_causal=*/!masked, /*scale=*/1.0 / scores_.divisor,
                                          /*enable_gqa=*/n_kv_heads_ != n_heads_);
}

}  // namespace folio::nn
