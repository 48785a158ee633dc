#include "modules/parts.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"
#include "modules/attention.h"
#include "modules/swiglu.h"

namespace folio::nn {

using torch::nn::AnyModule;

Parts::Parts(PartOptions options) : options_(std::move(options)) {
  core::require(options_.dropout >= 0 && options_.dropout < 1, "Llama: dropout is {}, expected a value in [0, 1)",
                options_.dropout);
}

AnyModule Parts::attention(const core::ModelConfig& config, RopeCache rope, int64_t layer) const {
  Attention attention(config, std::move(rope), options_.dropout, *options_.linears,
                      fmt::format("layers.{}.attention", layer));
  attention->written_out = options_.written_out;
  return AnyModule(attention);
}

AnyModule Parts::feed_forward(const core::ModelConfig& config, int64_t layer) const {
  return AnyModule(SwiGLU(config.dim, config.hidden_dim, *options_.linears, fmt::format("layers.{}.ffn", layer)));
}

BlockParts Parts::block_parts(const core::ModelConfig& config, RopeCache rope, int64_t layer) const {
  return {.attention_norm = AnyModule(RMSNorm(config.dim, config.norm_eps)),
          .attention = attention(config, std::move(rope), layer),
          .ffn_norm = AnyModule(RMSNorm(config.dim, config.norm_eps)),
          .ffn = feed_forward(config, layer)};
}

Block Parts::block(const core::ModelConfig& config, RopeCache rope, int64_t layer) const {
  core::require(config.is_plain(),
                "Llama: the configuration is not a plain Llama; pass the nn::Parts that build its blocks");
  return Block(block_parts(config, std::move(rope), layer), options_.dropout);
}

}  // namespace folio::nn
