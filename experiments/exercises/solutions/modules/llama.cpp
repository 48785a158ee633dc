#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

nn::BlockParts MyParts::block_parts(const core::ModelConfig& c, nn::RopeCache /*ours*/, int64_t /*layer*/) const {
  const Rope rope(c.context_length, c.head_dim, c.rope_theta);
  const Rotate rotate = [rope](const Tensor& x) { return rope->apply(x); };
  return {.attention_norm = torch::nn::AnyModule(RMSNorm(c.dim, c.norm_eps)),
          .attention = torch::nn::AnyModule(Attention(c, rotate)),
          .ffn_norm = torch::nn::AnyModule(RMSNorm(c.dim, c.norm_eps)),
          .ffn = torch::nn::AnyModule(SwiGLU(c.dim, c.hidden_dim))};
}

}  // namespace folio::exercises
