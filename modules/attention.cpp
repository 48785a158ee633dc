// Shapes: B sequences, T positions, D model width, H query heads, G key/value heads, K dimensions per head.
#include "modules/attention.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {

using torch::Tensor;

AttentionImpl::AttentionImpl(const core::ModelConfig& config, RopeCache rope, double dropout, const Linears& linears,
                             const std::string& name, bool qkv_bias, bool output_bias)
    : dim_(config.dim),
      n_heads_(config.n_heads),
      n_kv_heads_(config.n_kv_heads),
      divisor_(std::sqrt(static_cast<double>(config.head_dim))),
      dropout_(dropout),
      rope_(register_module("rope", std::move(rope))),
      wq_(register_module("wq", linears.make(name + ".wq", dim_, config.query_dim(), qkv_bias))),
      wk_(register_module("wk", linears.make(name + ".wk", dim_, config.kv_dim(), qkv_bias))),
      wv_(register_module("wv", linears.make(name + ".wv", dim_, config.kv_dim(), qkv_bias))),
      wo_(register_module("wo", linears.make(name + ".wo", config.query_dim(), dim_, output_bias))) {
  core::validate(config, "Attention");
  core::require(dropout >= 0 && dropout < 1, "Attention: dropout is {}, expected a value in [0, 1)", dropout);
}

AttentionImpl::Heads AttentionImpl::project(const Tensor& x_BTD, int64_t first_position) {
  require_BTD(x_BTD, dim_, "Attention");
  Tensor q_BTHK = wq_->forward(x_BTD).unflatten(-1, {n_heads_, -1});
  Tensor k_BTGK = wk_->forward(x_BTD).unflatten(-1, {n_kv_heads_, -1});
  const Tensor v_BTGK = wv_->forward(x_BTD).unflatten(-1, {n_kv_heads_, -1});
  before_rotation(q_BTHK, k_BTGK);
  return {.q = rope_->apply(q_BTHK, first_position).transpose(1, 2),
          .k = rope_->apply(k_BTGK, first_position).transpose(1, 2),
          .v = v_BTGK.transpose(1, 2)};
}

Tensor AttentionImpl::attend(const Heads& heads, const Tensor& starts_BT) {
  if (written_out || !has_kernel_) {
    const Tensor weights_BHTT = torch::dropout(weights(heads, starts_BT), dropout_, is_training());
    return weights_BHTT.matmul(heads.v.repeat_interleave(n_heads_ / n_kv_heads_, 1));
  }
  const Tensor mask_TT = mask(heads.q.size(2), heads.q.device(), starts_BT);
  const auto given = mask_TT.defined() ? std::optional(mask_TT) : std::nullopt;
  return at::scaled_dot_product_attention(heads.q, heads.k, heads.v, given, is_training() ? dropout_ : 0.0,
                                          /*is_causal=*/!given, /*scale=*/1.0 / divisor_,
                                          /*enable_gqa=*/n_kv_heads_ != n_heads_);
}

Tensor AttentionImpl::weights(const Heads& heads, const Tensor& starts_BT) {
  const int64_t T = heads.q.size(2);
  const Tensor k_BHTK = heads.k.repeat_interleave(n_heads_ / n_kv_heads_, 1);
  const Tensor scores_BHTT = heads.q.matmul(k_BHTK.transpose(-2, -1)) / divisor_;
  const Tensor mask_TT = mask(T, heads.q.device(), starts_BT);
  return softmax(scores_BHTT, mask_TT.defined() ? mask_TT : causal_mask(T, heads.q.device()));
}

Tensor AttentionImpl::softmax(const Tensor& scores_BHTT, const Tensor& mask_TT) {
  return scores_BHTT.masked_fill(~mask_TT, -std::numeric_limits<double>::infinity()).softmax(-1);
}

}  // namespace folio::nn
