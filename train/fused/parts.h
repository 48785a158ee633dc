// A family's parts with backward passes by hand, on a CPU. Where blocks are not fused, LibTorch's kernel for attention
// and its operations serve.
#pragma once

#include <memory>
#include <utility>

#include "modules/families/parts.h"
#include "train/fused/operations.h"

namespace folio::train::fused {

/// Whether block.cpp has all parts of this configuration: no biases, and no norms of queries and keys.
[[nodiscard]] bool can_be_fused(const core::ModelConfig& config);

/// Of a model's experts where they have a form here: gates are silu, there are no biases, and x is a float or double on
/// the CPU. Empty where the configuration has others. Products are in autocast's type where that is on.
[[nodiscard]] nn::ExpertProducts expert_products(const core::ModelConfig& config);

/// Parts of a model that are fused. Its experts are, too, unless attention is written out.
struct Fusion {
  bool blocks = false;     ///< block.cpp
  bool ends = false;       ///< ends.cpp
  bool recompute = false;  ///< a block's backward pass computes its activations once more, and only its input is kept
                           ///< (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016)
};

struct BlockSettings;

/// Parts of one model. Fused blocks and ends require can_be_fused().
class FusedParts : public nn::FamilyParts {
 public:
  FusedParts(nn::PartOptions options, Fusion fusion) : nn::FamilyParts(std::move(options)), fusion_(fusion) {}

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

/// 62 bits of LibTorch's generator for the CPU, whose state a checkpoint holds.
int64_t random_key();

/// x [..., D] in which numbers are dropped with this probability, and the others scaled by 1 / (1 - probability), on a
/// CPU; in f32 or f64.
Tensor dropout(const Tensor& x, double probability);

/// The mean over rows of -log softmax(norm(x) headᵀ)[target], a scalar; x [N, D] f32 or f64 on a CPU, norm_weight [D],
/// head [V, D], targets [N] int64. Within autocast the products are in its type. Throws core::Error for a target that
/// is not in [0, V).
Tensor linear_cross_entropy(const Tensor& x_ND, const Tensor& norm_weight_D, double norm_eps, const Tensor& head_VD,
                            const Tensor& targets_N, Operand& operand);

}  // namespace folio::train::fused
