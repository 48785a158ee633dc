#include "train/parallel/chunk.h"

#include <string>
#include <utility>

#include "core/error.h"

namespace folio::train::parallel {

ChunkImpl::ChunkImpl(const core::ModelConfig& config, std::shared_ptr<const nn::Parts> parts, LayerRange range)
    : config_(config), parts_(std::move(parts)), range_(range) {
  core::validate(config, "Llama");
  core::require(0 <= range.first && range.first < range.last && range.last <= config.n_layers,
                "Llama: of {} layers there is no range of {} to {}", config.n_layers, range.first, range.last);
  const nn::Linears& linears = *parts_->options().linears;
  if (is_first() || (is_last() && config.tie_embeddings)) {
    tok_embeddings_ =
        register_module("tok_embeddings", linears.embedding("tok_embeddings", config.vocab_size, config.dim));
  }
  const nn::RopeCache rope = parts_->rope(config);
  const auto layers = register_module("layers", std::make_shared<torch::nn::Module>());
  for (int64_t layer = range.first; layer < range.last; ++layer) {
    layers_.push_back(layers->register_module(std::to_string(layer), parts_->block(config, rope, layer)));
  }
  if (!is_last()) return;
  norm_ = register_module("norm", nn::RMSNorm(config.dim, config.norm_eps));
  head_ = config.tie_embeddings ? tok_embeddings_->as_head()
                                : register_module("output", linears.make("output", config.dim, config.vocab_size));
}

torch::Tensor ChunkImpl::forward(const torch::Tensor& input, const torch::Tensor& starts) {
  torch::Tensor x = input;
  if (is_first()) {
    nn::require_tokens(input, config_);
    x = parts_->embed(config_, tok_embeddings_, input);
  }
  for (nn::Block& block : layers_) x = block->forward(x, starts);
  return x;
}

torch::Tensor ChunkImpl::loss(const torch::Tensor& x, const torch::Tensor& targets) {
  core::require(is_last(), "Llama: layers {} to {} have no head", range_.first, range_.last);
  return parts_->loss(config_, x, norm_, head_, targets);
}

}  // namespace folio::train::parallel
