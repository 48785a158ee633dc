#include "train/parallel/chunk.h"

#include <string>
#include <utility>

namespace folio::train::parallel {

ChunkImpl::ChunkImpl(const core::ModelConfig& config, std::shared_ptr<const nn::Parts> parts, int64_t first,
                     int64_t end)
    : config_(config), parts_(std::move(parts)), first_(first), end_(end) {
  const nn::Linears& linears = *parts_->options().linears;
  if (is_first() || (is_last() && config.tie_embeddings)) {
    tok_embeddings_ =
        register_module("tok_embeddings", linears.embedding("tok_embeddings", config.vocab_size, config.dim));
  }
  const nn::RopeCache rope = parts_->rope(config);
  const auto layers = register_module("layers", std::make_shared<torch::nn::Module>());
  for (int64_t layer = first; layer < end; ++layer) {
    layers_.push_back(layers->register_module(std::to_string(layer), parts_->block(config, rope, layer)));
  }
  if (!is_last()) return;
  norm_ = register_module("norm", nn::RMSNorm(config.dim, config.norm_eps));
  head_ = config.tie_embeddings ? tok_embeddings_->as_head()
                                : register_module("output", linears.make("output", config.dim, config.vocab_size));
}

torch::Tensor ChunkImpl::forward(const torch::Tensor& input, const torch::Tensor& starts) {
  torch::Tensor x = is_first() ? parts_->embed(config_, tok_embeddings_, input) : input;
  for (nn::Block& block : layers_) x = block->forward(x, starts);
  return x;
}

torch::Tensor ChunkImpl::loss(const torch::Tensor& x, const torch::Tensor& targets) {
  return parts_->loss(config_, x, norm_, head_, targets);
}

}  // namespace folio::train::parallel
