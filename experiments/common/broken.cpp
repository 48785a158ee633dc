#include "experiments/common/broken.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>
#include <memory>
#include <utility>

namespace folio::experiments {
namespace {

class DiscardingBlockImpl : public nn::BlockImpl {
 public:
  using nn::BlockImpl::BlockImpl;

  torch::Tensor forward(torch::Tensor x_BTD, const nn::Observer&, const std::string&, const torch::Tensor&) override {
    parts_.attention.forward(parts_.attention_norm.forward(x_BTD));  // and nobody takes what it returns
    return x_BTD + parts_.ffn.forward(parts_.ffn_norm.forward(x_BTD));
  }
};

class ReplacingBlockImpl : public nn::BlockImpl {
 public:
  using nn::BlockImpl::BlockImpl;

  torch::Tensor forward(torch::Tensor x_BTD, const nn::Observer&, const std::string&, const torch::Tensor&) override {
    x_BTD = parts_.attention.forward(parts_.attention_norm.forward(x_BTD));
    return parts_.ffn.forward(parts_.ffn_norm.forward(x_BTD));
  }
};

// Blocks of Llama's own parts in another arrangement.
template <typename Arrangement>
nn::BlockFactory arranged_blocks(const core::ModelConfig& config) {
  nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
  return [rope](const core::ModelConfig& c, int64_t) {
    return nn::Block(std::shared_ptr<nn::BlockImpl>(std::make_shared<Arrangement>(nn::llama_parts(c, rope))));
  };
}

}  // namespace

MeanNormImpl::MeanNormImpl(int64_t dim, double eps) : eps_(eps) {
  weight = register_parameter("weight", torch::ones(dim));
}

torch::Tensor MeanNormImpl::forward(const torch::Tensor& x) {
  return x / (x.mean(-1, /*keepdim=*/true) + eps_).sqrt() * weight;
}

SequenceNormImpl::SequenceNormImpl(int64_t dim, double eps) : eps_(eps) {
  weight = register_parameter("weight", torch::ones(dim));
}

torch::Tensor SequenceNormImpl::forward(const torch::Tensor& x) {
  return x / (x.square().mean({-2, -1}, /*keepdim=*/true) + eps_).sqrt() * weight;
}

torch::Tensor UnmaskedAttentionImpl::forward(const torch::Tensor& x) {
  const Heads heads = project(x);
  return output(at::scaled_dot_product_attention(heads.q, heads.k, heads.v, {}, 0.0, /*is_causal=*/false, {},
                                                 /*enable_gqa=*/n_kv_heads_ != n_heads_));
}

torch::Tensor UnmaskedAttentionImpl::weights(const torch::Tensor& x) {
  const Heads heads = project(x);
  const auto k_BHTK = heads.k.repeat_interleave(n_heads_ / n_kv_heads_, 1);
  return (heads.q.matmul(k_BHTK.transpose(-2, -1)) / std::sqrt(heads.q.size(-1))).softmax(-1);
}

nn::BlockFactory blocks_that_discard_attention(const core::ModelConfig& config) {
  return arranged_blocks<DiscardingBlockImpl>(config);
}

nn::BlockFactory blocks_without_residuals(const core::ModelConfig& config) {
  return arranged_blocks<ReplacingBlockImpl>(config);
}

void initialize_by_default(nn::Llama& model) {
  for (const auto& module : model->modules()) {
    if (auto* linear = module->as<torch::nn::Linear>()) linear->reset_parameters();
    if (auto* embedding = module->as<torch::nn::Embedding>()) embedding->reset_parameters();
  }
}

}  // namespace folio::experiments
