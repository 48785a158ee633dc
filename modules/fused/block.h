// A whole block as one autograd function with a hand-written backward pass. Between its matrix products, which are
// LibTorch's (linears.h), are the loops of loops.h. It has the parameters of nn::Block, which stays the readable truth,
// and is that block itself where there is an observer, another device than the CPU, or a part that has no loop here.
#pragma once

#include "modules/llama.h"

namespace folio::nn {

/// Whether fused_blocks() has all parts of this family: no biases, and no norms of queries and keys.
[[nodiscard]] bool can_be_fused(const core::ModelConfig& config);

/// Makes fused blocks, whose dropout draws its keys from LibTorch's generator: one number for each forward pass of a
/// block. With `recompute`, the backward pass of a block computes its activations once more, and only its input is
/// kept (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016). Throws core::Error unless can_be_fused().
[[nodiscard]] BlockFactory fused_blocks(const core::ModelConfig& config, double dropout = 0.0, bool recompute = false);

/// A model with these blocks, and with Form::Fused. `frozen` is as LlamaImpl has it.
[[nodiscard]] Llama fused_llama(const core::ModelConfig& config, double dropout = 0.0, bool recompute = false,
                                const std::shared_ptr<const FrozenWeights>& frozen = nullptr);

}  // namespace folio::nn
