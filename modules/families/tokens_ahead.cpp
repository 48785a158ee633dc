// Shapes: B sequences, T positions, D model width.
#include "modules/families/tokens_ahead.h"

#include <string>
#include <utility>

namespace folio::nn {

using torch::Tensor;

LlamaAheadImpl::LlamaAheadImpl(const core::ModelConfig& config, const std::shared_ptr<const Parts>& parts)
    : LlamaImpl(config, parts),
      block_(parts->block(config, parts->rope(config), config.n_layers)),
      embedding_norm_(block_->register_module("embedding_norm", RMSNorm(config.dim, config.norm_eps))),
      hidden_norm_(block_->register_module("hidden_norm", RMSNorm(config.dim, config.norm_eps))),
      output_norm_(block_->register_module("output_norm", RMSNorm(config.dim, config.norm_eps))),
      projection_(block_->register_module("projection", Linear(2 * config.dim, config.dim))) {
  initialize(*block_, config.n_layers);
  named_children()["layers"]->register_module(std::to_string(config.n_layers), block_);
}

Tensor LlamaAheadImpl::ahead(const Tensor& h_BTD, const Tensor& next_BT, const Tensor& starts_BT) {
  const Tensor embedded_BTD = parts_->embed(config_, tok_embeddings_, next_BT);
  const Tensor both_BT2D = torch::cat({embedding_norm_->forward(embedded_BTD), hidden_norm_->forward(h_BTD)}, -1);
  // Autocast changes the projection's output type, so convert it back to the residual stream's.
  return block_->forward(projection_->forward(both_BT2D).to(embedded_BTD.scalar_type()), starts_BT);
}

LlamaAheadImpl::Losses LlamaAheadImpl::losses(const Tensor& tokens_BT, const Tensor& targets_BT,
                                              const Tensor& starts_BT) {
  const Tensor x_BTD = stream(tokens_BT, starts_BT);
  const Tensor next = parts_->loss(config_, x_BTD, norm_, head_, targets_BT);
  // The next token at position t is tokens[t + 1], and at the last position its target, or 0 if the target is ignored
  // (negative). The module has no loss at the last position, so that token only affects the experts' load statistics.
  const int64_t T = tokens_BT.size(1);
  const Tensor next_BT = torch::cat({tokens_BT.narrow(1, 1, T - 1), targets_BT.narrow(1, T - 1, 1).clamp_min(0)}, 1);
  const Tensor y_BTD = ahead(norm_->forward(x_BTD), next_BT, starts_BT);
  const Tensor later_BT = targets_ahead(targets_BT, starts_BT);
  if ((later_BT != Parts::kIgnored).any().item<bool>()) {
    return {next, parts_->loss(config_, y_BTD, output_norm_, head_, later_BT)};
  }
  return {next, (y_BTD.sum() + output_norm_->weight.sum()) * 0.0};  // zero gradients, since other ranks wait for them
}

Tensor targets_ahead(const Tensor& targets_BT, const Tensor& starts_BT) {
  const Tensor later_BT = targets_BT.roll(-1, 1);
  later_BT.select(1, -1).fill_(Parts::kIgnored);
  return starts_BT.defined() ? later_BT.masked_fill(starts_BT.roll(-1, 1) != starts_BT, Parts::kIgnored) : later_BT;
}

Llama llama_of(const core::ModelConfig& config, std::shared_ptr<const Parts> parts) {
  if (config.n_tokens_ahead == 0) return Llama(config, std::move(parts));
  return Llama(std::shared_ptr<LlamaImpl>(std::make_shared<LlamaAheadImpl>(config, parts)));
}

}  // namespace folio::nn
