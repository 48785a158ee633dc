// A whole block as one autograd function with a hand-written backward pass. Between its matrix products, which are
// LibTorch's (linears.h), are the loops of loops.h. It has the parameters of nn::Block, which stays the readable truth,
// and is that block itself on another device than the CPU.
#pragma once

#include <functional>

#include "modules/families/parts.h"

namespace folio::train::fused {

/// Whether a block here has all parts of this configuration: no biases, and no norms of queries and keys.
[[nodiscard]] bool can_be_fused(const core::ModelConfig& config);

/// Makes one of a model's blocks.
using BlockMaker = std::function<nn::Block(nn::BlockParts parts)>;

/// Fused blocks, whose dropout draws its keys from LibTorch's generator: one number for each forward pass of a block.
/// With `recompute`, the backward pass of a block computes its activations once more, and only its input is kept (Chen
/// et al., "Training Deep Nets with Sublinear Memory Cost", 2016). Throws core::Error unless can_be_fused().
[[nodiscard]] BlockMaker fused_blocks(const core::ModelConfig& config, const nn::RopeCache& rope, double dropout,
                                      bool recompute);

}  // namespace folio::train::fused
