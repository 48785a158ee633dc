#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

nn::BlockFactory my_blocks(const core::ModelConfig& config) {
  const Rope rope(config.context_length, config.head_dim, config.rope_theta);
  const Rotate rotate = [rope](const Tensor& x) { return rope->apply(x); };
  return [rotate](const core::ModelConfig& c, int64_t /*layer*/) {
    const nn::BlockParts parts{.attention_norm = torch::nn::AnyModule(RMSNorm(c.dim, c.norm_eps)),
                               .attention = torch::nn::AnyModule(Attention(c, rotate)),
                               .ffn_norm = torch::nn::AnyModule(RMSNorm(c.dim, c.norm_eps)),
                               .ffn = torch::nn::AnyModule(SwiGLU(c.dim, c.hidden_dim))};
    return layer_of(parts);
  };
}

}  // namespace folio::exercises
