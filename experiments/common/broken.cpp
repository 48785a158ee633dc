#include "experiments/common/broken.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include <memory>

namespace folio::experiments {
namespace {

class DiscardingBlockImpl : public nn::BlockImpl {
 public:
  using nn::BlockImpl::BlockImpl;

  torch::Tensor forward(const torch::Tensor& x_BTD, const torch::Tensor& /*starts*/) override {
    parts_.attention.forward(parts_.attention_norm.forward(x_BTD));  // the result is discarded
    return x_BTD + parts_.ffn.forward(parts_.ffn_norm.forward(x_BTD));
  }
};

class ReplacingBlockImpl : public nn::BlockImpl {
 public:
  using nn::BlockImpl::BlockImpl;

  torch::Tensor forward(const torch::Tensor& x_BTD, const torch::Tensor& /*starts*/) override {
    const torch::Tensor h_BTD = parts_.attention.forward(parts_.attention_norm.forward(x_BTD));
    return parts_.ffn.forward(parts_.ffn_norm.forward(h_BTD));
  }
};

// Builds blocks from Llama's own parts. `Arrangement` is the nn::BlockImpl whose forward() combines them.
template <typename Arrangement>
class ArrangedParts : public nn::Parts {
 public:
  [[nodiscard]] nn::Block block(const core::ModelConfig& config, nn::RopeCache rope, int64_t layer) const override {
    const std::shared_ptr<nn::BlockImpl> block = std::make_shared<Arrangement>(block_parts(config, rope, layer));
    return nn::Block(block);
  }
};

}  // namespace

torch::Tensor MeanNormImpl::forward(const torch::Tensor& x) {
  return x / (x.mean(-1, /*keepdim=*/true) + eps()).sqrt() * weight;
}

torch::Tensor SequenceNormImpl::forward(const torch::Tensor& x) {
  return x / (x.square().mean({-2, -1}, /*keepdim=*/true) + eps()).sqrt() * weight;
}

torch::Tensor UnmaskedAttentionImpl::forward(const torch::Tensor& x, const torch::Tensor& /*starts*/) {
  const Heads heads = project(x);
  return output(at::scaled_dot_product_attention(heads.q, heads.k, heads.v, {}, 0.0, /*is_causal=*/false, {},
                                                 /*enable_gqa=*/n_kv_heads_ != n_heads_));
}

torch::Tensor UnmaskedAttentionImpl::mask(int64_t T, torch::Device device, const torch::Tensor& /*starts*/) const {
  return torch::ones({T, T}, torch::dtype(torch::kBool).device(device));
}

ModelParts blocks_that_discard_attention() { return std::make_shared<ArrangedParts<DiscardingBlockImpl>>(); }

ModelParts blocks_without_residuals() { return std::make_shared<ArrangedParts<ReplacingBlockImpl>>(); }

void initialize_by_default(nn::Llama& model) {
  for (const auto& module : model->modules()) {
    if (auto* linear = module->as<nn::Linear>()) linear->reset_parameters();
    if (auto* embedding = module->as<nn::Embedding>()) embedding->reset_parameters();
  }
}

}  // namespace folio::experiments
