// Shapes: B sequences, T positions, N = B T rows, D model width.
#include "train/fused/parts.h"

#include <memory>
#include <utility>

#include "core/error.h"
#include "train/fused/ends.h"
#include "train/fused/linears.h"

namespace folio::train::fused {

Fusion fusion_of(const core::ModelConfig& config, bool recompute) {
  const bool whole = can_be_fused(config);
  return {.blocks = whole, .ends = whole, .experts = true, .recompute = recompute};
}

FusedParts::FusedParts(const core::ModelConfig& config, nn::PartOptions options, Fusion fusion)
    : nn::FamilyParts(std::move(options)), fusion_(fusion) {
  core::require(!(fusion.blocks || fusion.ends) || can_be_fused(config), "a {} has parts that have no fused form",
                core::info(config.family).name);
}

Tensor FusedParts::embed(const core::ModelConfig& config, nn::Embedding embedding, const Tensor& tokens) const {
  const bool drops = embedding->is_training() && options().dropout > 0.0;
  if (!fusion_.ends || !drops) return nn::FamilyParts::embed(config, std::move(embedding), tokens);
  auto x = embedding->forward(tokens);
  if (config.embedding_scale != 1.0F) x = x * config.embedding_scale;
  return x.is_cpu() ? dropout(x, options().dropout) : torch::dropout(x, options().dropout, true);
}

Tensor FusedParts::loss(const core::ModelConfig& config, const Tensor& x_BTD, nn::RMSNorm norm, nn::Linear head,
                        const Tensor& targets_BT) const {
  const bool plain_logits = config.logit_scale == 1.0F && config.logit_cap == 0.0F;
  if (!fusion_.ends || !x_BTD.is_cpu() || !plain_logits) {
    return nn::FamilyParts::loss(config, x_BTD, std::move(norm), std::move(head), targets_BT);
  }
  auto x_ND = x_BTD.flatten(0, 1);
  auto targets_N = targets_BT.flatten();
  const auto counts_N = targets_N != kIgnored;
  if (!counts_N.all().item<bool>()) {  // rows without a target need no logits
    const auto rows = counts_N.nonzero().flatten();
    x_ND = x_ND.index_select(0, rows);
    targets_N = targets_N.index_select(0, rows);
  }
  const lora::FrozenMatrix* frozen = frozen_of(head);
  const Tensor head_VD = frozen != nullptr ? frozen->to(product_type(x_ND)) : head->weight;
  return linear_cross_entropy(x_ND, norm->weight, norm->eps(), head_VD, targets_N, head_);
}

nn::ExpertProducts FusedParts::expert_products(const core::ModelConfig& config) const {
  return fusion_.experts ? fused::expert_products(config) : nn::ExpertProducts();
}

}  // namespace folio::train::fused
