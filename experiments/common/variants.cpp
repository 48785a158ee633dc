// Suffixes of tensor names are dimensions: B sequences, T positions, P pairs in a head, V vocabulary.
#include "experiments/common/variants.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/utils.h>

#include <cmath>
#include <utility>

#include "core/error.h"

namespace folio::experiments {
namespace {

// A module that replaces attention or the feed-forward and adds 0 to the residual stream.
class NothingImpl : public torch::nn::Module {
 public:
  torch::Tensor forward(const torch::Tensor& x) { return torch::zeros_like(x); }
};
TORCH_MODULE(Nothing);

class ChangedParts : public nn::Parts {
 public:
  ChangedParts(Change change, nn::RopeCache rope) : change_(std::move(change)), rope_(std::move(rope)) {}

  [[nodiscard]] nn::RopeCache rope(const core::ModelConfig& config) const override {
    // A module of its own for each model: models of one variant train concurrently, and train() writes to its modules.
    return rope_.is_empty() ? nn::Parts::rope(config) : nn::RopeCache(rope_->rotations());
  }
  [[nodiscard]] nn::BlockParts block_parts(const core::ModelConfig& config, nn::RopeCache rope,
                                           int64_t layer) const override {
    nn::BlockParts parts = nn::Parts::block_parts(config, rope, layer);
    if (change_) change_(parts, rope);
    return parts;
  }

 private:
  Change change_;
  nn::RopeCache rope_;
};

}  // namespace

using torch::nn::AnyModule;

ModelParts changed_blocks(Change change, nn::RopeCache rope) {
  return std::make_shared<ChangedParts>(std::move(change), std::move(rope));
}

ModelParts blocks_without_norms() {
  return changed_blocks([](nn::BlockParts& parts, const nn::RopeCache&) {
    parts.attention_norm = AnyModule(torch::nn::Identity());
    parts.ffn_norm = AnyModule(torch::nn::Identity());
  });
}

nn::RopeCache linear_rope(const core::ModelConfig& config, double scale) {
  // The angles of position 1 are at most 1 radian, so angle() returns them without wrapping.
  const torch::Tensor position_1_P = nn::RopeCache(2, config.head_dim, config.rope_theta)->rotations()[1].angle();
  const torch::Tensor position_T = torch::arange(config.context_length, torch::kDouble) / scale;
  const torch::Tensor angle_TP = torch::outer(position_T, position_1_P);
  return nn::RopeCache(torch::polar(torch::ones_like(angle_TP), angle_TP));
}

nn::RopeCache ntk_rope(const core::ModelConfig& config, double scale) {
  const auto d = static_cast<double>(config.head_dim);
  return nn::RopeCache(config.context_length, config.head_dim, config.rope_theta * std::pow(scale, d / (d - 2.0)));
}

nn::RopeCache no_rope(const core::ModelConfig& config) {
  return nn::RopeCache(torch::ones({config.context_length, config.head_dim / 2}, torch::kComplexDouble));
}

torch::Tensor CachedAttentionImpl::forward(const torch::Tensor& x_B1D, const torch::Tensor& /*starts*/) {
  const Heads heads = project(x_B1D, k_.defined() ? k_.size(2) : 0);
  k_ = k_.defined() ? torch::cat({k_, heads.k}, 2) : heads.k;
  v_ = v_.defined() ? torch::cat({v_, heads.v}, 2) : heads.v;
  // No mask is needed: all cached positions are at or before the query's.
  return output(at::scaled_dot_product_attention(heads.q, k_, v_, {}, 0.0, /*is_causal=*/false, {},
                                                 /*enable_gqa=*/n_kv_heads_ != n_heads_));
}

torch::Tensor decode_with_cache(const nn::Llama& model, const torch::Tensor& tokens_BT, const Change& change) {
  const torch::NoGradGuard no_grad;
  const core::ModelConfig& config = model->config();
  nn::Llama decoder = seeded_llama(config, 0, changed_blocks([&](nn::BlockParts& parts, const nn::RopeCache& rope) {
                                     if (change) change(parts, rope);
                                     parts.attention = AnyModule(CachedAttention(config, rope));
                                   }));
  decoder->to(model->parameters().front().scalar_type());
  copy_parameters(model, decoder);
  std::vector<torch::Tensor> logits_B1V;
  for (const torch::Tensor& token_B1 : tokens_BT.split(1, 1)) logits_B1V.push_back(decoder->forward(token_B1));
  return torch::cat(logits_B1V, 1);
}

PlainFeedForwardImpl::PlainFeedForwardImpl(int64_t dim, int64_t hidden_dim, Activation activation)
    : activation_(activation), w1_(nullptr), w2_(nullptr) {
  w1_ = register_module("w1", torch::nn::Linear(torch::nn::LinearOptions(dim, hidden_dim).bias(false)));
  w2_ = register_module("w2", torch::nn::Linear(torch::nn::LinearOptions(hidden_dim, dim).bias(false)));
}

torch::Tensor PlainFeedForwardImpl::forward(const torch::Tensor& x_BTD) {
  const torch::Tensor up_BTF = w1_->forward(x_BTD);
  return w2_->forward(activation_ == Activation::ReLU ? torch::relu(up_BTF) : torch::gelu(up_BTF));
}

ModelParts blocks_with_plain_feed_forward(const core::ModelConfig& config,
                                          PlainFeedForwardImpl::Activation activation) {
  core::require(config.hidden_dim % 2 == 0, "3/2 of a hidden_dim of {} is not a width: make it even",
                config.hidden_dim);
  return changed_blocks([config, activation](nn::BlockParts& parts, const nn::RopeCache&) {
    parts.ffn = AnyModule(PlainFeedForward(config.dim, config.hidden_dim / 2 * 3, activation));
  });
}

void draw_feed_forwards_by_width(nn::Llama& model) {
  const torch::NoGradGuard no_grad;
  for (auto& p : model->named_parameters()) {
    const bool reads = p.key().ends_with(".ffn.w1.weight") || p.key().ends_with(".ffn.w3.weight");
    if (reads) p->normal_(0.0, 1.0 / std::sqrt(static_cast<double>(model->config().dim)));
  }
}

void draw_blocks_by_width(nn::Llama& model) {
  const torch::NoGradGuard no_grad;
  for (auto& p : model->named_parameters()) {
    if (!p.key().starts_with("layers.") || p->dim() != 2) continue;
    p->normal_(0.0, 1.0 / std::sqrt(static_cast<double>(p->size(1))));
  }
}

ModelParts blocks_without_attention() {
  return changed_blocks([](nn::BlockParts& parts, const nn::RopeCache&) {
    parts.attention_norm = AnyModule(torch::nn::Identity());
    parts.attention = AnyModule(Nothing());
  });
}

ModelParts blocks_without_feed_forward() {
  return changed_blocks([](nn::BlockParts& parts, const nn::RopeCache&) {
    parts.ffn_norm = AnyModule(torch::nn::Identity());
    parts.ffn = AnyModule(Nothing());
  });
}

}  // namespace folio::experiments
