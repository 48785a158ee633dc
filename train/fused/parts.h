// Model parts with hand-written backward passes, for CPUs. Parts that are not fused use LibTorch's operations and
// attention kernel.
#pragma once

#include <memory>
#include <utility>

#include "modules/families/parts.h"
#include "train/fused/operations.h"

namespace folio::train::fused {

/// Returns true if block.cpp supports the configuration: Llama's norms, RoPE, scores and SiLU gate, without biases.
[[nodiscard]] bool can_be_fused(const core::ModelConfig& config);

/// Returns fused experts, or an empty function if gates are not SiLU or the experts have biases. For inputs on a
/// GPU, the function returns an undefined tensor. Products have autocast's type if it is enabled.
[[nodiscard]] nn::ExpertProducts expert_products(const core::ModelConfig& config);

/// Selects the fused parts of a model. Experts are fused as well, unless PartOptions::written_out is set. Source of
/// `recompute`: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
struct Fusion {
  bool blocks = false;     ///< fuse each block into one function (block.cpp)
  bool ends = false;       ///< fuse embedding dropout, final norm, head and loss (ends.cpp)
  bool recompute = false;  ///< blocks keep only their input and recompute activations in the backward pass
};

struct BlockSettings;

/// Creates the parts of one model and fuses those that `fusion` selects. Fused blocks and ends require can_be_fused().
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

/// Draws 62 random bits from LibTorch's CPU generator, whose state is saved in checkpoints.
int64_t random_key();

/// Drops elements of x, of any shape, with this probability and scales the others by 1 / (1 - probability). x is f32
/// or f64 on the CPU.
Tensor dropout(const Tensor& x, double probability);

/// Returns the mean over rows of -log softmax(norm(x) headᵀ)[target], a scalar. x [N, D] is f32 or f64 on the CPU,
/// norm_weight [D], head [V, D], targets [N] int64, with model width D and vocabulary size V. Products have autocast's
/// type if enabled; `operand` caches the head in that type. Throws core::Error for a target outside [0, V).
Tensor linear_cross_entropy(const Tensor& x_ND, const Tensor& norm_weight_D, double norm_eps, const Tensor& head_VD,
                            const Tensor& targets_N, Operand& operand);

}  // namespace folio::train::fused
