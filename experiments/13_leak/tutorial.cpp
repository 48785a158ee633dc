#include "experiments/13_leak/tutorial.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <mutex>

namespace folio::experiments::tutorial {
namespace {

torch::nn::Linear linear(int64_t in, int64_t out, bool bias = true) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias));
}

// Returns RoPE with the notebook's angles [T, K/2]. Position p rotates pair i by p · 10000^(-2(i - 1)/K), where i
// starts at 0 instead of 1.
nn::RopeCache rotations(int64_t positions, int64_t head_dim) {
  const torch::Tensor i_P = torch::arange(head_dim / 2, torch::kDouble);
  const torch::Tensor frequency_P = torch::pow(10000.0, -2.0 * (i_P - 1.0) / static_cast<double>(head_dim));
  const torch::Tensor angle_TP = torch::outer(torch::arange(positions, torch::kDouble), frequency_P);
  return nn::RopeCache(torch::polar(torch::ones_like(angle_TP), angle_TP));
}

}  // namespace

torch::Tensor Dropout::drop(const torch::Tensor& x, double probability) const {
  if (probability == 0.0) return x;
  return x * torch::empty_like(x).bernoulli_(1.0 - probability, generator).div_(1.0 - probability);
}

NormImpl::NormImpl(const Config& config) : over_(config.norm) {
  scale_TD_ = register_parameter("scale", torch::ones({config.window, config.dim}));
}

torch::Tensor NormImpl::forward(const torch::Tensor& x_BTD) {
  const int64_t T = x_BTD.size(1);
  torch::Tensor square = x_BTD.square().mean(2, /*keepdim=*/true);           // [B, T, 1], per position
  if (over_ == NormOver::Window) square = square.mean(1, /*keepdim=*/true);  // [B, 1, 1], over the whole window
  if (over_ == NormOver::Past) {                                             // [B, T, 1], over all positions so far
    square = square.cumsum(1) / torch::arange(1, T + 1).unsqueeze(1);
  }
  return scale_TD_.slice(0, 0, T) * (x_BTD / square.sqrt());
}

AttentionImpl::AttentionImpl(const Config& config, nn::RopeCache rope, std::shared_ptr<Dropout> dropout)
    : n_heads_(config.n_heads),
      rope_(std::move(rope)),
      dropout_(std::move(dropout)),
      wq_(register_module("wq", linear(config.dim, config.n_heads * config.dim, false))),
      wk_(register_module("wk", linear(config.dim, config.n_heads * config.dim, false))),
      wv_(register_module("wv", linear(config.dim, config.n_heads * config.dim, false))),
      wo_(register_module("wo", linear(config.n_heads * config.dim, config.dim))) {}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x_BTD) {
  const auto heads = [&](torch::nn::Linear& w) { return w->forward(x_BTD).unflatten(-1, {n_heads_, -1}); };
  const torch::Tensor q_BHTK = rope_->apply(heads(wq_)).transpose(1, 2);
  const torch::Tensor k_BHTK = rope_->apply(heads(wk_)).transpose(1, 2);
  const torch::Tensor v_BHTK = heads(wv_).transpose(1, 2);
  const torch::Tensor future_TT = torch::ones({x_BTD.size(1), x_BTD.size(1)}, torch::kBool).triu(1);
  const torch::Tensor scores_BHTT = q_BHTK.matmul(k_BHTK.transpose(2, 3)) / std::sqrt(q_BHTK.size(3));
  const torch::Tensor weights_BHTT =
      scores_BHTT.masked_fill(future_TT, -std::numeric_limits<double>::infinity()).softmax(-1);
  const torch::Tensor y_BHTK = dropout_->drop(weights_BHTT, dropout_->weights).matmul(v_BHTK);
  return dropout_->drop(wo_->forward(y_BHTK.transpose(1, 2).flatten(2)), dropout_->output);
}

FeedForwardImpl::FeedForwardImpl(int64_t dim)
    : first_(register_module("first", linear(dim, dim))),
      gate_(register_module("gate", linear(dim, dim))),
      linear_(register_module("linear", linear(dim, dim))),
      beta_(register_parameter("beta", torch::ones(1))) {}

torch::Tensor FeedForwardImpl::forward(const torch::Tensor& x_BTD) {
  const torch::Tensor h_BTD = first_->forward(x_BTD);
  const torch::Tensor gate_BTD = gate_->forward(h_BTD);
  return gate_BTD * torch::sigmoid(beta_ * gate_BTD) * linear_->forward(h_BTD);
}

BlockImpl::BlockImpl(const Config& config, const nn::RopeCache& rope, const std::shared_ptr<Dropout>& dropout)
    : norm_(register_module("norm", Norm(config))),
      attention_(register_module("attention", Attention(config, rope, dropout))),
      feedforward_(register_module("feedforward", FeedForward(config.dim))) {}

torch::Tensor BlockImpl::forward(torch::Tensor x_BTD) {
  x_BTD = norm_->forward(x_BTD);  // replaces the residual stream, instead of normalizing a copy for attention
  x_BTD = x_BTD + attention_->forward(x_BTD);
  x_BTD = norm_->forward(x_BTD);  // before the feed-forward: the same module, with the same scale, as before attention
  x_BTD = x_BTD + feedforward_->forward(x_BTD);
  return x_BTD;
}

LlamaImpl::LlamaImpl(const Config& config)
    : config_(config),
      embeddings_(register_module("embeddings", torch::nn::Embedding(config.vocab_size, config.dim))),
      blocks_(register_module("blocks", torch::nn::ModuleList())),
      ffn_(register_module("ffn", FeedForward(config.dim))),
      head_(register_module("head", linear(config.dim, config.vocab_size))) {
  const nn::RopeCache rope = rotations(config.window, config.dim);
  for (int64_t layer = 0; layer < config.n_layers; ++layer) blocks_->push_back(Block(config, rope, dropout_));
}

torch::Tensor LlamaImpl::forward(const torch::Tensor& tokens_BT) { return forward_embedded(embed(tokens_BT)); }

torch::Tensor LlamaImpl::embed(const torch::Tensor& tokens_BT) { return embeddings_->forward(tokens_BT); }

torch::Tensor LlamaImpl::forward_embedded(const torch::Tensor& x_BTD) {
  torch::Tensor x = x_BTD;
  for (const auto& block : *blocks_) x = block->as<Block>()->forward(x);
  return head_->forward(ffn_->forward(x));
}

Llama seeded(const Config& config, uint64_t seed) {
  static std::mutex generator;  // guards LibTorch's global random generator
  const std::lock_guard lock(generator);
  torch::manual_seed(seed);
  Llama model(config);
  model->dropout().generator = at::detail::createCPUGenerator(seed);
  return model;
}

}  // namespace folio::experiments::tutorial
