// Shapes: B sequences, T positions, D model width, H query heads, G key/value heads, K dimensions per head.
#include "modules/families/attention.h"

#include <limits>
#include <utility>

#include "modules/families/named_tensor.h"
#include "modules/mask.h"

namespace folio::nn {

FamilyAttentionImpl::FamilyAttentionImpl(const core::ModelConfig& config, RopeCache rope, double dropout,
                                         const Linears& linears, const std::string& name)
    : AttentionImpl(config, std::move(rope), dropout, linears, name, config.qkv_bias(),
                    core::info(config.family).output_bias),
      window_(config.sliding_window),
      cap_(config.attention_cap),
      norms_all_(core::info(config.family).qk_norm == core::QkNorm::All),
      q_norm_(nullptr),
      k_norm_(nullptr) {
  const core::FamilyInfo& family = core::info(config.family);
  if (config.attention_scale > 0) divisor_ = 1.0 / config.attention_scale;
  has_kernel_ = cap_ == 0 && !family.sinks;
  if (family.sinks) sinks_ = register_named(*this, "sinks.weight", torch::zeros({n_heads_}));
  if (family.qk_norm == core::QkNorm::None) return;
  q_norm_ = register_module("q_norm", RMSNorm(norms_all_ ? config.query_dim() : config.head_dim, config.norm_eps));
  k_norm_ = register_module("k_norm", RMSNorm(norms_all_ ? config.kv_dim() : config.head_dim, config.norm_eps));
}

void FamilyAttentionImpl::before_rotation(torch::Tensor& q_BTHK, torch::Tensor& k_BTGK) {
  if (!q_norm_) return;
  const auto normed = [&](RMSNorm& norm, const torch::Tensor& x) {
    return norms_all_ ? norm->forward(x.flatten(2)).view_as(x) : norm->forward(x);
  };
  q_BTHK = normed(q_norm_, q_BTHK);
  k_BTGK = normed(k_norm_, k_BTGK);
}

torch::Tensor FamilyAttentionImpl::softmax(const torch::Tensor& scores_BHTT, const torch::Tensor& mask_TT) {
  const auto capped_BHTT = cap_ > 0 ? cap_ * torch::tanh(scores_BHTT / cap_) : scores_BHTT;
  if (!sinks_.defined()) return AttentionImpl::softmax(capped_BHTT, mask_TT);
  // The sink is an extra key that every query attends to. Its weight is dropped after the softmax.
  const int64_t B = scores_BHTT.size(0), T = scores_BHTT.size(-1);
  const auto sinks_BHT1 = sinks_.to(scores_BHTT.scalar_type()).view({1, -1, 1, 1}).expand({B, -1, T, 1});
  const auto masked_BHTT = capped_BHTT.masked_fill(~mask_TT, -std::numeric_limits<double>::infinity());
  return torch::cat({masked_BHTT, sinks_BHT1}, -1).softmax(-1).narrow(-1, 0, T);
}

torch::Tensor FamilyAttentionImpl::mask(int64_t T, torch::Device device, const torch::Tensor& starts_BT) const {
  if (window_ == 0 || (window_ >= T && !starts_BT.defined())) return AttentionImpl::mask(T, device, starts_BT);
  const auto ones_TT = torch::ones({T, T}, torch::TensorOptions(torch::kBool).device(device));
  return causal_mask(T, device, starts_BT) & ones_TT.triu(1 - window_);
}

}  // namespace folio::nn
