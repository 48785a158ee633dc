#include "modules/families/parts.h"

#include <fmt/format.h>

#include <utility>

#include "modules/families/attention.h"
#include "modules/families/feed_forward.h"
#include "modules/families/latent_attention.h"
#include "modules/families/rope.h"
#include "modules/swiglu.h"

namespace folio::nn {

using torch::nn::AnyModule;

AnyModule FamilyParts::attention(const core::ModelConfig& config, RopeCache rope, int64_t layer) const {
  if (config.latent()) {
    LatentAttention attention(config, std::move(rope), options().dropout, *options().linears,
                              fmt::format("layers.{}.attention", layer));
    attention->written_out = options().written_out;
    return AnyModule(attention);
  }
  const std::shared_ptr<AttentionImpl> attention = std::make_shared<FamilyAttentionImpl>(
      config, std::move(rope), options().dropout, *options().linears, fmt::format("layers.{}.attention", layer));
  attention->written_out = options().written_out;
  return AnyModule(Attention(attention));
}

AnyModule FamilyParts::feed_forward(const core::ModelConfig& config, int64_t layer) const {
  const std::string name = fmt::format("layers.{}.ffn", layer);
  if (config.has_experts(layer)) {
    return AnyModule(Mixture(config, expert_products(config), *options().linears, name));
  }
  const core::Gate gate = core::info(config.family).gate;
  if (gate == core::Gate::Silu) return Parts::feed_forward(config, layer);
  return AnyModule(SwiGLU(config.dim, config.hidden_dim, *options().linears, name,
                          [gate](const auto& z, const auto& up) { return gated(gate, z, up); }));
}

BlockParts FamilyParts::block_parts(const core::ModelConfig& config, RopeCache rope, int64_t layer) const {
  core::ModelConfig own = config;
  own.window_period = 1;
  if (!config.has_window(layer)) {
    own.sliding_window = 0;
  } else if (const auto* of_family = rope->as<FamilyRopeImpl>(); of_family != nullptr && of_family->local) {
    rope = of_family->local;
  }
  BlockParts parts = Parts::block_parts(own, std::move(rope), layer);
  if (!core::info(config.family).pre_norms) parts.attention_norm = parts.ffn_norm = AnyModule();
  return parts;
}

torch::Tensor FamilyParts::embed(const core::ModelConfig& config, Embedding embedding,
                                 const torch::Tensor& tokens) const {
  auto x = embedding->forward(tokens);
  if (config.embedding_scale != 1.0F) x = x * config.embedding_scale;
  return torch::dropout(x, options().dropout, embedding->is_training());
}

torch::Tensor FamilyParts::logits(const core::ModelConfig& config, const torch::Tensor& x, RMSNorm norm,
                                  Linear head) const {
  auto logits = Parts::logits(config, x, std::move(norm), std::move(head));
  if (config.logit_scale != 1.0F) logits = logits * config.logit_scale;
  return config.logit_cap > 0.0F ? config.logit_cap * torch::tanh(logits / config.logit_cap) : logits;
}

}  // namespace folio::nn
