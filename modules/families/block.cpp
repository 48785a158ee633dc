// Blocks of families that normalize or scale a branch's output before adding it to the residual stream:
//
//     h = x + scale · post_norm(attention(norm(x))), and the same for the feed-forward network
//
// Gemma 2 has norms before and after each branch, OLMo 2 only after each branch. Granite has the scale.
#include "modules/block.h"

#include <memory>
#include <utility>

#include "modules/families/parts.h"

namespace folio::nn {
namespace {

using torch::nn::AnyModule;

class FamilyBlockImpl : public BlockImpl {
 public:
  /// attention_post and ffn_post normalize the branches' outputs; they may be empty. `scale` multiplies these outputs.
  FamilyBlockImpl(BlockParts parts, AnyModule attention_post, AnyModule ffn_post, double scale, double dropout)
      : BlockImpl(dropout), attention_post_(std::move(attention_post)), ffn_post_(std::move(ffn_post)), scale_(scale) {
    parts_ = std::move(parts);
    add("attention_norm", parts_.attention_norm);
    add("attention", parts_.attention);
    add("post_attention_norm", attention_post_);
    add("ffn_norm", parts_.ffn_norm);
    add("ffn", parts_.ffn);
    add("post_ffn_norm", ffn_post_);
  }

 protected:
  torch::Tensor attended(const torch::Tensor& x, const torch::Tensor& starts) override {
    return after(attention_post_, BlockImpl::attended(x, starts));
  }
  torch::Tensor fed(const torch::Tensor& h) override { return after(ffn_post_, BlockImpl::fed(h)); }

 private:
  torch::Tensor after(AnyModule& norm, const torch::Tensor& added) const {
    const torch::Tensor y = norm.is_empty() ? added : norm.forward(added);
    return scale_ == 1.0 ? y : y * scale_;
  }

  AnyModule attention_post_, ffn_post_;
  double scale_;
};

}  // namespace

Block FamilyParts::block(const core::ModelConfig& config, RopeCache rope, int64_t layer) const {
  BlockParts parts = block_parts(config, std::move(rope), layer);
  const bool post_norms = core::info(config.family).post_norms;
  const double scale = config.residual_scale;
  if (!post_norms && scale == 1.0) return Block(std::move(parts), options().dropout);
  const auto norm = [&] { return post_norms ? AnyModule(RMSNorm(config.dim, config.norm_eps)) : AnyModule(); };
  const std::shared_ptr<BlockImpl> block =
      std::make_shared<FamilyBlockImpl>(std::move(parts), norm(), norm(), scale, options().dropout);
  return Block(block);
}

}  // namespace folio::nn
