// Dropout of embeddings, and where the keys of dropout come from.
#pragma once

#include <torch/types.h>

namespace folio::train::fused {

/// 62 bits of LibTorch's generator for the CPU, whose state a checkpoint holds.
int64_t random_key();

/// x [..., D] in which numbers are dropped with this probability, and the others scaled by 1 / (1 - probability), on a
/// CPU; in f32 or f64.
torch::Tensor dropout(const torch::Tensor& x, double probability);

}  // namespace folio::train::fused
