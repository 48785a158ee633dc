// The final norm, the linear head and the cross-entropy as one autograd function. The logits of some rows at a time are
// made, turned into their gradient and used up, so that those of a whole batch are never stored.
// With logits z = n Wᵀ of the normed rows n, and dz from cross_entropy_body.h: dn = dz W and dW = dzᵀ n. They are
// computed in the forward pass, where the logits are, and multiplied by the loss's own gradient in the backward pass
// (Hsu et al., "Liger Kernel", 2024, section 3.2).
#pragma once

#include <torch/types.h>

#include "train/fused/operand.h"

namespace folio::train::fused {

/// The mean over rows of -log softmax(norm(x) headᵀ)[target], a scalar; x [N, D] f32 or f64 on a CPU, norm_weight [D],
/// head [V, D], targets [N] int64. Within autocast the products are in its type. Throws core::Error for a target that
/// is not in [0, V).
torch::Tensor linear_cross_entropy(const torch::Tensor& x_ND, const torch::Tensor& norm_weight_D, double norm_eps,
                                   const torch::Tensor& head_VD, const torch::Tensor& targets_N, Operand& operand);

}  // namespace folio::train::fused
