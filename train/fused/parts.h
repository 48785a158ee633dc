// A family's parts with backward passes by hand, on a CPU. Where blocks cannot be fused (can_be_fused()), LibTorch's
// kernel for attention and its operations serve.
#pragma once

#include "train/fused/block.h"
#include "train/fused/operand.h"

namespace folio::train::fused {

/// What of a model is fused.
struct Fusion {
  bool blocks = false;     ///< block.h
  bool ends = false;       ///< the final norm, the head and the loss (head.h), and the embeddings' dropout
  bool experts = false;    ///< experts.h
  bool recompute = false;  ///< of blocks
};
/// All that can be.
[[nodiscard]] Fusion fusion_of(const core::ModelConfig& config, bool recompute = false);

/// Of one model.
class FusedParts : public nn::FamilyParts {
 public:
  /// Throws core::Error where blocks or ends have no fused form.
  FusedParts(const core::ModelConfig& config, nn::PartOptions options, Fusion fusion);

  [[nodiscard]] nn::Block block(const core::ModelConfig& config, nn::RopeCache rope, int64_t layer) const override;
  torch::Tensor embed(const core::ModelConfig& config, nn::Embedding embedding,
                      const torch::Tensor& tokens) const override;
  torch::Tensor loss(const core::ModelConfig& config, const torch::Tensor& x, nn::RMSNorm norm, nn::Linear head,
                     const torch::Tensor& targets) const override;

 protected:
  [[nodiscard]] nn::ExpertProducts expert_products(const core::ModelConfig& config) const override;

 private:
  Fusion fusion_;
  mutable BlockMaker make_block_;
  mutable Operand head_;
};

/// A model all of which is fused. Throws core::Error unless can_be_fused().
[[nodiscard]] nn::Llama fused_llama(const core::ModelConfig& config, nn::PartOptions options = {},
                                    bool recompute = false);

}  // namespace folio::train::fused
