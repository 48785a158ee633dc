// One layer of a Llama: h = x + attention(norm(x)), then h + ffn(norm(h)). Some families normalize what is added, too,
// or that alone, or scale it. The parts are constructor arguments, so that an experiment can replace one of them.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <string>

#include "core/model_config.h"
#include "modules/rope.h"

namespace folio::nn {

/// Is called with each named activation of a forward pass. It may keep the tensor, and must not change it.
using Observer = std::function<void(const std::string& name, const torch::Tensor& value)>;

/// The parts of a block: each maps one tensor [B, T, dim] to one of the same shape. Norms may be empty.
struct BlockParts {
  torch::nn::AnyModule attention_norm;
  torch::nn::AnyModule attention;  ///< the only part that mixes positions
  torch::nn::AnyModule ffn_norm;
  torch::nn::AnyModule ffn;
  torch::nn::AnyModule post_attention_norm{};  ///< of what attention adds
  torch::nn::AnyModule post_ffn_norm{};
  double residual_scale = 1.0;  ///< of what the branches add
};

/// Llama's parts: RMSNorm, Attention, RMSNorm, and SwiGLU, or in layers with experts Mixture. Throws core::Error where
/// the configuration is invalid.
[[nodiscard]] BlockParts llama_parts(const core::ModelConfig& config, RopeCache rope, double dropout = 0.0,
                                     int64_t layer = 0);

/// A pre-norm residual block. Source: Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020.
class BlockImpl : public torch::nn::Module {
 public:
  /// `dropout` is the probability that an element of a branch's output is dropped in training. Throws core::Error
  /// unless it is in [0, 1).
  explicit BlockImpl(BlockParts parts, double dropout = 0.0);

  /// x [B, T, dim] to [B, T, dim]; `starts` is for the attention (attention.h). For each of the two branches,
  /// "attention" and "ffn", the observer gets the input of the branch as NAME_norm, its output as NAME, and the sum as
  /// NAME_residual, all with the prefix. Throws core::Error if a part returns another shape. Virtual for experiments
  /// that arrange the same parts in another way.
  virtual torch::Tensor forward(torch::Tensor x, const Observer& observer = {}, const std::string& prefix = "",
                                const torch::Tensor& starts = {});

 protected:
  BlockParts parts_;
  double dropout_;
};
TORCH_MODULE(Block);

}  // namespace folio::nn
