// Shapes: B sequences, T positions, D model width, H query heads, K numbers in a head.
#include "modules/families/attention.h"

#include <limits>
#include <utility>

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
      k_norm_(nullptr),
      sinks_(nullptr) {
  if (config.attention_scale > 0) divisor_ = 1.0 / config.attention_scale;
  const core::FamilyInfo& family = core::info(config.family);
  if (family.sinks) sinks_ = register_module("sinks", NamedTensor("weight", torch::zeros({n_heads_})));
  if (family.qk_norm == core::QkNorm::None) return;
  q_norm_ = register_module("q_norm", RMSNorm(norms_all_ ? config.query_dim() : config.head_dim, config.norm_eps));
  k_norm_ = register_module("k_norm", RMSNorm(norms_all_ ? config.kv_dim() : config.head_dim, config.norm_eps));
}

torch::Tensor FamilyAttentionImpl::heads_of(Linear& linear, RMSNorm& norm, int64_t n_heads,
                                            const torch::Tensor& x_BTD) {
  const auto y = linear->forward(x_BTD);
  if (norm && norms_all_) return norm.get()->forward(y).unflatten(-1, {n_heads, -1});
  const auto y_BTHK = y.unflatten(-1, {n_heads, -1});
  return norm ? norm.get()->forward(y_BTHK) : y_BTHK;
}

torch::Tensor FamilyAttentionImpl::queries(const torch::Tensor& x_BTD) {
  return heads_of(wq_, q_norm_, n_heads_, x_BTD);
}

torch::Tensor FamilyAttentionImpl::keys(const torch::Tensor& x_BTD) {
  return heads_of(wk_, k_norm_, n_kv_heads_, x_BTD);
}

torch::Tensor FamilyAttentionImpl::attend(const Heads& heads, const torch::Tensor& starts_BT) {
  if (cap_ == 0 && !sinks_) return AttentionImpl::attend(heads, starts_BT);
  return attend_written_out(heads, starts_BT);
}

torch::Tensor FamilyAttentionImpl::softmax(const torch::Tensor& scores_BHTT, const torch::Tensor& mask_TT) {
  const auto capped_BHTT = cap_ > 0 ? cap_ * torch::tanh(scores_BHTT / cap_) : scores_BHTT;
  if (!sinks_) return AttentionImpl::softmax(capped_BHTT, mask_TT);
  // The sink is one position more that all see, and its weight is left out.
  const int64_t B = scores_BHTT.size(0), T = scores_BHTT.size(-1);
  const auto sinks_BHT1 = sinks_->value.to(scores_BHTT.scalar_type()).view({1, -1, 1, 1}).expand({B, -1, T, 1});
  const auto masked_BHTT = capped_BHTT.masked_fill(~mask_TT, -std::numeric_limits<double>::infinity());
  return torch::cat({masked_BHTT, sinks_BHT1}, -1).softmax(-1).narrow(-1, 0, T);
}

torch::Tensor FamilyAttentionImpl::mask(int64_t T, torch::Device device, const torch::Tensor& starts_BT) const {
  if (window_ == 0 || (window_ >= T && !starts_BT.defined())) return AttentionImpl::mask(T, device, starts_BT);
  const auto ones_TT = torch::ones({T, T}, torch::TensorOptions(torch::kBool).device(device));
  return causal_mask(T, device, starts_BT) & ones_TT.triu(1 - window_);
}

}  // namespace folio::nn
