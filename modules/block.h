// One layer of a Llama: x + mixer(norm(x)), then x + ffn(norm(x)). The residual stream x is only ever added to.
// The four parts are given from outside, so that a study swaps one of them and copies nothing.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <string>

#include "core/model_config.h"
#include "modules/rope.h"

namespace folio::nn {

/// Sees a named intermediate of a forward pass. It may keep the tensor, and must not change it.
using Observer = std::function<void(const std::string& name, const torch::Tensor& value)>;

/// The parts of a block: each maps one tensor [B, T, dim] to one of the same shape.
struct BlockParts {
  torch::nn::AnyModule attention_norm;
  torch::nn::AnyModule attention;  ///< the mixer: the only part through which positions see each other
  torch::nn::AnyModule ffn_norm;
  torch::nn::AnyModule ffn;
};

/// Llama's parts: RMSNorm, Attention, RMSNorm, SwiGLU. Throws core::Error where the configuration is invalid.
[[nodiscard]] BlockParts llama_parts(const core::ModelConfig& config, RopeCache rope, double dropout = 0.0);

/// A pre-norm residual block. Source: Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020.
class BlockImpl : public torch::nn::Module {
 public:
  /// `dropout` is the probability that a number of a branch is dropped while training. Throws core::Error unless it is
  /// in [0, 1).
  explicit BlockImpl(BlockParts parts, double dropout = 0.0);

  /// x [B, T, dim] to [B, T, dim]. For each of the two branches, "attention" and "ffn", the observer sees under the
  /// prefix its input NAME_norm, its output NAME, and NAME_residual, the stream after it. Throws core::Error where a
  /// part returns another shape, or throws itself. Virtual for studies that arrange the same parts in another way.
  virtual torch::Tensor forward(torch::Tensor x, const Observer& observer = {}, const std::string& prefix = "");

 protected:
  BlockParts parts_;
  double dropout_;
};
TORCH_MODULE(Block);

}  // namespace folio::nn
