// Shapes: B sequences, T positions, D model width, H heads, R rank of keys and values, N elements of a query or key
// without RoPE, P elements with RoPE, K = N + P, V elements of a value.
#include "modules/families/latent_attention.h"

#include <limits>
#include <optional>
#include <utility>

#include "core/error.h"
#include "modules/families/named_tensor.h"
#include "modules/mask.h"
#include "modules/shapes.h"

namespace folio::nn {

using torch::Tensor;

LatentAttentionImpl::LatentAttentionImpl(const core::ModelConfig& config, RopeCache rope, double dropout,
                                         const Linears& linears, const std::string& name)
    : config_(config),
      dropout_(dropout),
      rope_(register_module("rope", std::move(rope))),
      wq_(nullptr),
      wq_a_(nullptr),
      wq_b_(nullptr),
      wkv_a_(register_module("wkv_a", linears.make(name + ".wkv_a", config.dim, config.latent_dim()))),
      wo_(register_module("wo", linears.make(name + ".wo", config.heads_dim(), config.dim))),
      q_a_norm_(nullptr),
      kv_a_norm_(register_module("kv_a_norm", RMSNorm(config.kv_lora_rank, core::kLatentNormEps))) {
  core::validate(config, "LatentAttention");
  core::require(config.latent(), "LatentAttention: kv_lora_rank is 0");
  core::require(dropout >= 0 && dropout < 1, "LatentAttention: dropout is {}, expected a value in [0, 1)", dropout);
  const auto linear = [&](const char* own, int64_t in, int64_t out) {
    return register_module(own, linears.make(fmt::format("{}.{}", name, own), in, out));
  };
  const int64_t H = config.n_heads, R = config.kv_lora_rank;
  if (config.q_lora_rank > 0) {
    wq_a_ = linear("wq_a", config.dim, config.q_lora_rank);
    q_a_norm_ = register_module("q_a_norm", RMSNorm(config.q_lora_rank, core::kLatentNormEps));
    wq_b_ = linear("wq_b", config.q_lora_rank, config.query_dim());
  } else {
    wq_ = linear("wq", config.dim, config.query_dim());
  }
  wk_b_ = register_named(*this, "wk_b.weight", torch::zeros({H, R, config.qk_nope_head_dim}));
  wv_b_ = register_named(*this, "wv_b.weight", torch::zeros({H, config.v_head_dim, R}));
}

LatentAttentionImpl::Heads LatentAttentionImpl::project(const Tensor& x_BTD) {
  require_BTD(x_BTD, config_.dim, "LatentAttention");
  const int64_t N = config_.qk_nope_head_dim, P = config_.qk_rope_head_dim, R = config_.kv_lora_rank;
  const Tensor q_BTX = wq_ ? wq_->forward(x_BTD) : wq_b_->forward(q_a_norm_->forward(wq_a_->forward(x_BTD)));
  const Tensor q_BTHK = q_BTX.unflatten(-1, {config_.n_heads, N + P});
  const Tensor latent_BTX = wkv_a_->forward(x_BTD);
  const Tensor c_B1TR = kv_a_norm_->forward(latent_BTX.narrow(-1, 0, R)).unsqueeze(1);
  const Tensor k_BTP = rope_->apply(latent_BTX.narrow(-1, R, P).unsqueeze(2)).squeeze(2);

  const Tensor q_rope_BTHP = rope_->apply(q_BTHK.narrow(-1, N, P));
  const Tensor k_BHTN = c_B1TR.matmul(wk_b_);
  const Tensor k_BHTP = k_BTP.unsqueeze(1).expand({-1, config_.n_heads, -1, -1});
  return {.q = torch::cat({q_BTHK.narrow(-1, 0, N), q_rope_BTHP}, -1).transpose(1, 2),
          .k = torch::cat({k_BHTN, k_BHTP}, -1),
          .v = c_B1TR.matmul(wv_b_.transpose(1, 2)),
          .latent = torch::cat({c_B1TR.squeeze(1), k_BTP}, -1)};
}

Tensor LatentAttentionImpl::attend(const Heads& heads, const Tensor& starts_BT) {
  const int64_t T = heads.q.size(2);
  const double scale = config_.score_scale();
  const auto mask = [&] { return causal_mask(T, heads.q.device(), starts_BT); };
  if (written_out) {
    const Tensor scores_BHTT = heads.q.matmul(heads.k.transpose(-2, -1)) * scale;
    const Tensor masked_BHTT = scores_BHTT.masked_fill(~mask(), -std::numeric_limits<double>::infinity());
    return torch::dropout(masked_BHTT.softmax(-1), dropout_, is_training()).matmul(heads.v);
  }
  const auto given = starts_BT.defined() ? std::optional(mask()) : std::nullopt;
  return at::scaled_dot_product_attention(heads.q, heads.k, heads.v, given, is_training() ? dropout_ : 0.0,
                                          /*is_causal=*/!given, scale);
}

Tensor LatentAttentionImpl::forward(const Tensor& x_BTD, const Tensor& starts_BT) {
  const Tensor y_BHTV = attend(project(x_BTD), starts_BT);
  return wo_->forward(y_BHTV.transpose(1, 2).flatten(2));
}

}  // namespace folio::nn
