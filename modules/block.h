// One layer of a Llama, a pre-norm block: attention mixes positions, the feed-forward network acts on each position
// separately, and both add to the residual stream.
//
//     h = x + attention(norm(x)),  y = h + ffn(norm(h))              x, h, y [B, T, dim]
//
//     nn::BlockParts parts = nn::Parts().block_parts(config, rope, /*layer=*/0);
//     nn::Block block(parts);
//     torch::Tensor y = block->forward(x);
//
// Source: Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020: norms are in the branches.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

namespace folio::nn {

/// The parts of a block: each maps one tensor [B, T, dim] to one of the same shape. Norms may be empty.
struct BlockParts {
  torch::nn::AnyModule attention_norm;
  torch::nn::AnyModule attention;  ///< the only part that mixes positions
  torch::nn::AnyModule ffn_norm;
  torch::nn::AnyModule ffn;
};

class BlockImpl : public torch::nn::Module {
 public:
  /// `dropout` is the probability that an element of a branch's output is dropped in training. Throws core::Error
  /// unless it is in [0, 1).
  explicit BlockImpl(BlockParts parts, double dropout = 0.0);
  /// `starts` is for the attention (mask.h). Throws core::Error if a part returns another shape than x's.
  virtual torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& starts = {});

  /// The modules that forward() calls. Replacing one here changes forward(), but does not register the new module.
  [[nodiscard]] BlockParts& parts() { return parts_; }

 protected:
  explicit BlockImpl(double dropout);  ///< a derived class add()s its parts, in an order of its own
  void add(const char* name, const torch::nn::AnyModule& part) {
    if (!part.is_empty()) register_module(name, part.ptr());
  }
  /// The branches' outputs, before they are added to the residual stream.
  virtual torch::Tensor attended(const torch::Tensor& x, const torch::Tensor& starts);
  virtual torch::Tensor fed(const torch::Tensor& h);

  BlockParts parts_;
  double dropout_;
};
TORCH_MODULE(Block);

}  // namespace folio::nn
