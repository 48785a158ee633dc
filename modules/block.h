// One layer of a Llama, a pre-norm block: attention mixes positions, the feed-forward network transforms each position
// separately, and both add their outputs to the residual stream.
//
//     h = x + attention(norm(x)),  y = h + ffn(norm(h))              x, h, y [B, T, dim]
//
//     nn::BlockParts parts = nn::Parts().block_parts(config, rope, /*layer=*/0);
//     nn::Block block(parts);
//     torch::Tensor y = block->forward(x);
//
// Source: Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020 (pre-norm).
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

namespace folio::nn {

/// The parts of a block. Each maps [B, T, dim] to [B, T, dim]. An empty norm is skipped.
struct BlockParts {
  torch::nn::AnyModule attention_norm;
  torch::nn::AnyModule attention;  ///< the only part that mixes positions
  torch::nn::AnyModule ffn_norm;
  torch::nn::AnyModule ffn;
};

class BlockImpl : public torch::nn::Module {
 public:
  /// Creates a block. `dropout` is the probability of dropping an element of a branch's output in training. Throws
  /// core::Error unless it is in [0, 1).
  explicit BlockImpl(BlockParts parts, double dropout = 0.0);
  /// Maps x to y, both [B, T, dim]; `starts` marks packed sequences (mask.h). Throws core::Error if their shapes
  /// differ.
  virtual torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {});

  /// Returns the modules that forward() calls. They can be replaced, but new ones are not registered as submodules.
  [[nodiscard]] BlockParts& parts() { return parts_; }

 protected:
  explicit BlockImpl(double dropout);  ///< for derived classes, which register their parts with add()
  void add(const char* name, const torch::nn::AnyModule& part) {
    if (!part.is_empty()) register_module(name, part.ptr());
  }
  /// Returns the attention branch's output, before the residual sum. fed() returns that of the feed-forward branch.
  virtual torch::Tensor attended(const torch::Tensor& x, const torch::Tensor& starts);
  virtual torch::Tensor fed(const torch::Tensor& h);

  BlockParts parts_;
  double dropout_;
};
TORCH_MODULE(Block);

}  // namespace folio::nn
