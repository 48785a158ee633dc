// Shapes: B sequences, T positions, D model width, V vocabulary.
#include "modules/llama.h"

#include <torch/utils.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "modules/shapes.h"

namespace folio::nn {

LlamaImpl::LlamaImpl(const core::ModelConfig& config, std::shared_ptr<const Parts> parts)
    : config_(config), parts_(std::move(parts)), tok_embeddings_(nullptr), norm_(nullptr), head_(nullptr) {
  core::validate(config, "Llama");
  const Linears& linears = *parts_->options().linears;
  tok_embeddings_ =
      register_module("tok_embeddings", linears.embedding("tok_embeddings", config.vocab_size, config.dim));
  const RopeCache rope = parts_->rope(config);
  const auto layers = register_module("layers", std::make_shared<torch::nn::Module>());
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    layers_.push_back(layers->register_module(std::to_string(layer), parts_->block(config, rope, layer)));
  }
  norm_ = register_module("norm", RMSNorm(config.dim, config.norm_eps));
  head_ = config.tie_embeddings ? tok_embeddings_->as_head()
                                : register_module("output", linears.make("output", config.dim, config.vocab_size));
  initialize(*this, config.n_layers);
}

torch::Tensor LlamaImpl::embed(const torch::Tensor& tokens_BT) {
  if (tokens_BT.dim() != 2 || tokens_BT.scalar_type() != torch::kLong || tokens_BT.numel() == 0) {
    core::fail("Llama: tokens are {}, expected Long [B, T] with B, T >= 1", describe(tokens_BT));
  }
  if (tokens_BT.size(1) > config_.context_length) {
    core::fail("Llama: tokens are {}, expected T <= context_length {}", describe(tokens_BT), config_.context_length);
  }
  return parts_->embed(config_, tok_embeddings_, tokens_BT);
}

torch::Tensor LlamaImpl::stream(const torch::Tensor& tokens_BT, const torch::Tensor& starts_BT) {
  torch::Tensor x_BTD = embed(tokens_BT);
  for (Block& block : layers_) x_BTD = block->forward(x_BTD, starts_BT);
  return x_BTD;
}

torch::Tensor LlamaImpl::loss(const torch::Tensor& tokens_BT, const torch::Tensor& targets_BT,
                              const torch::Tensor& starts_BT) {
  if (targets_BT.sizes() != tokens_BT.sizes() || targets_BT.scalar_type() != tokens_BT.scalar_type()) {
    core::fail("Llama: targets are {}, expected {} like the tokens", describe(targets_BT), describe(tokens_BT));
  }
  return parts_->loss(config_, stream(tokens_BT, starts_BT), norm_, head_, targets_BT);
}

void initialize(torch::nn::Module& model, int64_t n_layers) {
  constexpr double kStd = 0.02;
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model.named_parameters()) {
    const std::string_view name = parameter.key();
    const bool writes_to_stream = name.ends_with(".wo.weight") || name.ends_with(".w2.weight");
    const double std = writes_to_stream ? kStd / std::sqrt(2.0 * static_cast<double>(n_layers)) : kStd;
    if (name.ends_with(".bias"))
      parameter->zero_();
    else if (parameter->dim() >= 2)
      parameter->normal_(0.0, std);
  }
}

}  // namespace folio::nn
