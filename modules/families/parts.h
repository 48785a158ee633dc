// Parts for all model families. The table in core/families.cpp lists each family's features; the modules here implement
// the features and never test for a family:
//
//     pairs; scaled, partial and local rotations      rope.h
//     qkv_bias, output_bias, qk_norm, sinks,          attention.h
//     windows, caps and scales of scores
//     latent                                          latent_attention.h
//     gate                                            feed_forward.h
//     pre_norms, post_norms, residual_scale           block.cpp
//     mixture                                         mixture.h
//     scales of embeddings and logits, cap of logits  parts.cpp
//     modules that predict later tokens               tokens_ahead.h
#pragma once

#include <memory>

#include "modules/families/mixture.h"
#include "modules/families/tokens_ahead.h"

namespace folio::nn {

class FamilyParts : public Parts {
 public:
  using Parts::Parts;

  [[nodiscard]] RopeCache rope(const core::ModelConfig& config) const override;  ///< a FamilyRopeImpl (families/rope.h)
  [[nodiscard]] torch::nn::AnyModule attention(const core::ModelConfig& config, RopeCache rope,
                                               int64_t layer) const override;
  [[nodiscard]] torch::nn::AnyModule feed_forward(const core::ModelConfig& config, int64_t layer) const override;
  /// Creates the parts with the layer's own configuration (sliding_window 0 in layers without a window) and rotations.
  [[nodiscard]] BlockParts block_parts(const core::ModelConfig& config, RopeCache rope, int64_t layer) const override;
  [[nodiscard]] Block block(const core::ModelConfig& config, RopeCache rope, int64_t layer) const override;
  torch::Tensor embed(const core::ModelConfig& config, Embedding embedding, const torch::Tensor& tokens) const override;
  torch::Tensor logits(const core::ModelConfig& config, const torch::Tensor& x, RMSNorm norm,
                       Linear head) const override;

 protected:
  /// Returns the function that computes the experts' outputs. If it is empty, Mixture uses its own loop.
  [[nodiscard]] virtual ExpertProducts expert_products(const core::ModelConfig& /*config*/) const { return {}; }
};

/// Builds a model of any family.
[[nodiscard]] inline Llama family_llama(const core::ModelConfig& config, PartOptions options = {}) {
  return llama_of(config, std::make_shared<FamilyParts>(std::move(options)));
}

}  // namespace folio::nn
