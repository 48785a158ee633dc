// A family's parts with backward passes by hand, on a CPU. Where blocks cannot be fused, LibTorch's kernel for
// attention and its operations serve; on another device a fused block is nn::Block itself, whose parameters it has.
#pragma once

#include <memory>

#include "modules/families/parts.h"
#include "train/fused/operations.h"

namespace folio::train::fused {

/// Whether block.cpp has all parts of this configuration: no biases, and no norms of queries and keys.
[[nodiscard]] bool can_be_fused(const core::ModelConfig& config);

/// Of a model's experts where they have a form here: gates are silu, there are no biases, and x is a float or double on
/// the CPU. Empty where the configuration has others. Products are in autocast's type where that is on.
[[nodiscard]] nn::ExpertProducts expert_products(const core::ModelConfig& config);

/// What of a model is fused.
struct Fusion {
  bool blocks = false;     ///< block.cpp
  bool ends = false;       ///< ends.h
  bool experts = false;    ///< experts.cpp
  bool recompute = false;  ///< a block's backward pass computes its activations once more, and only its input is kept
                           ///< (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016)
};
/// All that can be.
[[nodiscard]] Fusion fusion_of(const core::ModelConfig& config, bool recompute = false);

struct BlockSettings;

/// Of one model.
class FusedParts : public nn::FamilyParts {
 public:
  /// Throws core::Error where blocks or ends have no fused form.
  FusedParts(const core::ModelConfig& config, nn::PartOptions options, Fusion fusion);

  [[nodiscard]] nn::Block block(const core::ModelConfig& config, nn::RopeCache rope, int64_t layer) const override;
  Tensor embed(const core::ModelConfig& config, nn::Embedding embedding, const Tensor& tokens) const override;
  Tensor loss(const core::ModelConfig& config, const Tensor& x, nn::RMSNorm norm, nn::Linear head,
              const Tensor& targets) const override;

 protected:
  [[nodiscard]] nn::ExpertProducts expert_products(const core::ModelConfig& config) const override;

 private:
  Fusion fusion_;
  mutable std::shared_ptr<const BlockSettings> settings_;
  mutable Operand head_;
};

}  // namespace folio::train::fused
