// The mistakes, each with the test that must fail first and words of its message:
//     one_norm_for_both: HasTheParametersOfALlama: its own two norms
//     eps_of_no_configuration: LogitsEqualOurs: norm_eps
//     theta_of_no_configuration: LogitsEqualOurs: rope_theta
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

nn::BlockParts MyParts::block_parts(const core::ModelConfig& c, nn::RopeCache /*ours*/, int64_t /*layer*/) const {
  using torch::nn::AnyModule;
  const Rope rope(c.context_length, c.head_dim, wrong("theta_of_no_configuration") ? 10000.0 : c.rope_theta);
  const Rotate rotate = [rope](const Tensor& x) { return rope->apply(x); };
  const double eps = wrong("eps_of_no_configuration") ? 1e-5 : c.norm_eps;
  const RMSNorm first(c.dim, eps), second(c.dim, eps);
  return {.attention_norm = AnyModule(first),
          .attention = AnyModule(Attention(c, rotate)),
          .ffn_norm = AnyModule(wrong("one_norm_for_both") ? first : second),
          .ffn = AnyModule(SwiGLU(c.dim, c.hidden_dim))};
}

}  // namespace folio::exercises
