// Blocks of families that norm what a branch adds to the stream, or scale it:
//
//     h = x + scale · post_norm(attention(norm(x))), and the same with the feed-forward network.
//
// Gemma 2 has norms before and after a branch, OLMo 2 after it alone, Granite a scale.
#pragma once

#include "modules/block.h"

namespace folio::nn {

struct PostParts {
  torch::nn::AnyModule attention_norm{};  ///< of what attention adds; empty: none
  torch::nn::AnyModule ffn_norm{};
  double scale = 1.0;
};

class FamilyBlockImpl : public BlockImpl {
 public:
  FamilyBlockImpl(BlockParts parts, PostParts post, double dropout);

 protected:
  torch::Tensor attended(const torch::Tensor& x, const torch::Tensor& starts) override;
  torch::Tensor fed(const torch::Tensor& h) override;

 private:
  PostParts post_;
};

}  // namespace folio::nn
