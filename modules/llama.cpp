// Shapes: B sequences, T positions, D model width, V vocabulary.
#include "modules/llama.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/rope_scaling.h"
#include "modules/experts.h"
#include "modules/fused/dropout.h"
#include "modules/fused/head.h"
#include "modules/fused/operations.h"
#include "modules/shapes.h"

namespace folio::nn {

RopeCache rope_of(const core::ModelConfig& config) {
  return RopeCache(config.context_length, config.rotated(), config.rope_theta, core::rope_factors(config),
                   core::info(config.family).pairs, core::rope_magnitude(config));
}

BlockFactory llama_blocks(const core::ModelConfig& config, double dropout, PartsFactory make_parts) {
  core::validate(config, "llama_blocks");
  if (!make_parts) make_parts = llama_parts;
  RopeCache rope = rope_of(config);
  RopeCache local = rope;  // of layers with a window
  if (config.local_rope_theta > 0.0F) {
    core::ModelConfig of_local = config;
    of_local.rope_theta = config.local_rope_theta;
    of_local.rope_scaling = {};
    local = rope_of(of_local);
  }
  return [rope, local, dropout, make_parts](core::ModelConfig c, int64_t layer) {
    const bool windowed = c.has_window(layer);
    c.window_period = 1;
    if (!windowed) c.sliding_window = 0;
    return Block(make_parts(c, windowed ? local : rope, dropout, layer), dropout);
  };
}

LlamaImpl::LlamaImpl(const core::ModelConfig& config, double dropout, BlockFactory make_block,
                     const std::shared_ptr<const FrozenWeights>& frozen, LayerRange range)
    : config_(config), dropout_(dropout), range_(range), tok_embeddings_(nullptr), norm_(nullptr), output_(nullptr) {
  core::validate(config, "Llama");
  core::require(dropout >= 0 && dropout < 1, "Llama: dropout has to be in [0, 1), but is {}", dropout);
  if (range_.last < 0) range_.last = config.n_layers;
  core::require(0 <= range_.first && range_.first < range_.last && range_.last <= config.n_layers,
                "Llama: of {} layers there is no range of {} to {}", config.n_layers, range_.first, range_.last);
  core::require(!frozen || (is_first() && is_last()), "Llama: a frozen model is not cut into parts");
  if (!make_block) make_block = llama_blocks(config, dropout);

  if (!frozen && (is_first() || (is_last() && config.tie_embeddings))) {
    tok_embeddings_ = register_module("tok_embeddings", torch::nn::Embedding(config.vocab_size, config.dim));
  }
  const auto layers = register_module("layers", std::make_shared<torch::nn::Module>());
  for (int64_t layer = range_.first; layer < range_.last; ++layer) {
    layers_.push_back(layers->register_module(std::to_string(layer), make_block(config, layer)));
    if (frozen) freeze(*layers_.back(), fmt::format("layers.{}", layer), *frozen);
  }
  if (is_last()) norm_ = register_module("norm", RMSNorm(config.dim, config.norm_eps));
  if (frozen) {
    freeze(*norm_, "norm", *frozen);
    frozen_embeddings_ = frozen->matrix("tok_embeddings.weight");
    frozen_output_ = config.tie_embeddings ? frozen_embeddings_ : frozen->matrix("output.weight");
    return;
  }
  if (is_last() && !config.tie_embeddings) {
    const auto options = torch::nn::LinearOptions(config.dim, config.vocab_size).bias(false);
    output_ = register_module("output", torch::nn::Linear(options));
  }
  initialize(*this, config.n_layers);
}

torch::Tensor LlamaImpl::embed(const torch::Tensor& tokens_BT, const Observer& observer) {
  if (tokens_BT.dim() != 2 || tokens_BT.scalar_type() != torch::kLong || tokens_BT.numel() == 0) {
    core::fail("Llama: tokens have to be Long [B, T] with B, T >= 1, but are {}", describe(tokens_BT));
  }
  if (tokens_BT.size(1) > config_.context_length) {
    core::fail("Llama: tokens have to be at most context_length {} long, but are {}", config_.context_length,
               describe(tokens_BT));
  }
  core::require(is_first(), "Llama: layers {} to {} have no embeddings", range_.first, range_.last);
  auto x_BTD = frozen_embeddings_ ? frozen_embeddings_->rows_of(tokens_BT).to(norm_->weight.scalar_type())
                                  : tok_embeddings_->forward(tokens_BT);
  if (config_.embedding_scale != 1.0F) x_BTD = x_BTD * config_.embedding_scale;
  if (is_training() && dropout_ > 0.0) {
    const bool fused = form == Form::Fused && x_BTD.is_cpu();
    x_BTD = fused ? fused::dropout(x_BTD, dropout_) : torch::dropout(x_BTD, dropout_, true);
  }
  if (observer) observer("embedding", x_BTD);
  return x_BTD;
}

torch::Tensor LlamaImpl::through(torch::Tensor x_BTD, const Observer& observer, const torch::Tensor& starts_BT) {
  int64_t layer = range_.first;
  for (Block& block : layers_) {
    x_BTD = block->forward(x_BTD, observer, fmt::format("layers.{}.", layer++), starts_BT);
  }
  return x_BTD;
}

torch::Tensor LlamaImpl::head(torch::ScalarType type) const {
  if (frozen_output_) return frozen_output_->to(type);
  return config_.tie_embeddings ? tok_embeddings_->weight : output_->weight;
}

torch::Tensor LlamaImpl::logits_of(const torch::Tensor& x_BTD, const Observer& observer) {
  core::require(is_last(), "Llama: layers {} to {} have no head", range_.first, range_.last);
  const auto observed = [&](const char* name, torch::Tensor value) {
    if (observer) observer(name, value);
    return value;
  };
  const auto normed_BTD = observed("norm", norm_->forward(x_BTD));
  auto logits_BTV = torch::linear(normed_BTD, head(normed_BTD.scalar_type()));
  if (config_.logit_scale != 1.0F) logits_BTV = logits_BTV * config_.logit_scale;
  if (config_.logit_cap > 0.0F) logits_BTV = config_.logit_cap * torch::tanh(logits_BTV / config_.logit_cap);
  return observed("logits", logits_BTV);
}

torch::Tensor LlamaImpl::forward(const torch::Tensor& tokens_BT, const Observer& observer,
                                 const torch::Tensor& starts_BT) {
  return logits_of(through(embed(tokens_BT, observer), observer, starts_BT), observer);
}

torch::Tensor LlamaImpl::loss(const torch::Tensor& tokens_BT, const torch::Tensor& targets_BT,
                              const torch::Tensor& starts_BT) {
  if (targets_BT.sizes() != tokens_BT.sizes() || targets_BT.scalar_type() != tokens_BT.scalar_type()) {
    core::fail("Llama: targets have to be {} as the tokens, but are {}", describe(tokens_BT), describe(targets_BT));
  }
  return loss_of(through(embed(tokens_BT), {}, starts_BT), targets_BT);
}

torch::Tensor LlamaImpl::loss_of(const torch::Tensor& x_BTD, const torch::Tensor& targets_BT) {
  const bool plain_logits = config_.logit_scale == 1.0F && config_.logit_cap == 0.0F;
  if (form == Form::Fused && x_BTD.is_cpu() && plain_logits && is_last()) {
    auto x_ND = x_BTD.flatten(0, 1);
    auto targets_N = targets_BT.flatten();
    const auto counts_N = targets_N != kIgnored;
    if (!counts_N.all().item<bool>()) {  // rows without a target need no logits
      const auto rows = counts_N.nonzero().flatten();
      x_ND = x_ND.index_select(0, rows);
      targets_N = targets_N.index_select(0, rows);
    }
    return fused::linear_cross_entropy(x_ND, norm_->weight, config_.norm_eps, head(fused::product_type(x_ND)),
                                       targets_N, fused_head_);
  }
  return torch::cross_entropy_loss(logits_of(x_BTD, {}).flatten(0, 1), targets_BT.flatten());
}

Llama plain_llama(const core::ModelConfig& config, double dropout, const std::shared_ptr<const FrozenWeights>& frozen) {
  Llama model(config, dropout, BlockFactory(), frozen);
  model->apply([](torch::nn::Module& module) {
    if (auto* attention = module.as<Attention>()) attention->form = Form::Plain;
    if (auto* mixture = module.as<Mixture>()) mixture->form = Form::Plain;
  });
  return model;
}

void initialize(torch::nn::Module& model, int64_t n_layers) {
  constexpr double kStd = 0.02;
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model.named_parameters()) {
    const std::string_view name = parameter.key();
    const bool writes_to_stream = name.ends_with(".wo.weight") || name.ends_with(".w2.weight");
    const bool bias = name.ends_with(".bias");
    if (bias) parameter->zero_();
    if (bias || parameter->dim() < 2) continue;
    parameter->normal_(0.0, writes_to_stream ? kStd / std::sqrt(2.0 * static_cast<double>(n_layers)) : kStd);
  }
}

}  // namespace folio::nn
