// What is before a model's first block and after its last one: the embeddings' dropout; and the final norm, the linear
// head and the cross-entropy as one autograd function. The logits of some rows at a time are made, turned into their
// gradient and used up, so that those of a whole batch are never stored.
// With logits z = n Wᵀ of the normed rows n, and dz from loop_table.cpp: dn = dz W and dW = dzᵀ n. They are
// computed in the forward pass, where the logits are, and multiplied by the loss's own gradient in the backward pass
// (Hsu et al., "Liger Kernel", 2024, section 3.2).
#pragma once

#include <torch/types.h>

#include "train/fused/operations.h"

namespace folio::train::fused {

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
