#include "modules/families/block.h"

#include <utility>

namespace folio::nn {
namespace {

torch::Tensor after(torch::nn::AnyModule& norm, double scale, torch::Tensor y) {
  if (!norm.is_empty()) y = norm.forward(y);
  return scale == 1.0 ? y : y * scale;
}

}  // namespace

FamilyBlockImpl::FamilyBlockImpl(BlockParts parts, PostParts post, double dropout)
    : BlockImpl(dropout), post_(std::move(post)) {
  parts_ = std::move(parts);
  add("attention_norm", parts_.attention_norm);
  add("attention", parts_.attention);
  add("post_attention_norm", post_.attention_norm);
  add("ffn_norm", parts_.ffn_norm);
  add("ffn", parts_.ffn);
  add("post_ffn_norm", post_.ffn_norm);
}

torch::Tensor FamilyBlockImpl::attended(const torch::Tensor& x, const torch::Tensor& starts) {
  return after(post_.attention_norm, post_.scale, BlockImpl::attended(x, starts));
}

torch::Tensor FamilyBlockImpl::fed(const torch::Tensor& h) {
  return after(post_.ffn_norm, post_.scale, BlockImpl::fed(h));
}

}  // namespace folio::nn
