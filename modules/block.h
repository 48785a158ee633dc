// One layer of a Llama: attention moves what positions know, the feed-forward network works on each by itself, and each
// adds to the stream what it makes of its normed input.
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

  /// What forward() calls. Another part in place of one is called, but no module of the model.
  [[nodiscard]] BlockParts& parts() { return parts_; }

 protected:
  explicit BlockImpl(double dropout);  ///< a derived class add()s its parts, in an order of its own
  void add(const char* name, const torch::nn::AnyModule& part) {
    if (!part.is_empty()) register_module(name, part.ptr());
  }
  /// What a branch adds to the stream.
  virtual torch::Tensor attended(const torch::Tensor& x, const torch::Tensor& starts);
  virtual torch::Tensor fed(const torch::Tensor& h);

  BlockParts parts_;
  double dropout_;
};
TORCH_MODULE(Block);

}  // namespace folio::nn
