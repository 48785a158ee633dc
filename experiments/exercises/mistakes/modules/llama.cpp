#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {
namespace {

using torch::nn::AnyModule;
using LayerParts = nn::BlockParts(const core::ModelConfig& config);

// Returns a layer's parts with the given norm_eps and rope_theta. If `one_norm` is true, both branches share a norm.
nn::BlockParts parts_with(const core::ModelConfig& c, double eps, double theta, bool one_norm = false) {
  const Rope rope(c.context_length, c.head_dim, theta);
  const Rotate rotate = [rope](const Tensor& x) { return rope->apply(x); };
  const RMSNorm first(c.dim, eps), second(c.dim, eps);
  return {.attention_norm = AnyModule(first),
          .attention = AnyModule(Attention(c, rotate)),
          .ffn_norm = AnyModule(one_norm ? first : second),
          .ffn = AnyModule(SwiGLU(c.dim, c.hidden_dim))};
}

nn::BlockParts sound_parts(const core::ModelConfig& c) { return parts_with(c, c.norm_eps, c.rope_theta); }
nn::BlockParts one_norm_for_both(const core::ModelConfig& c) { return parts_with(c, c.norm_eps, c.rope_theta, true); }
nn::BlockParts eps_of_no_configuration(const core::ModelConfig& c) { return parts_with(c, 1e-5, c.rope_theta); }
nn::BlockParts theta_of_no_configuration(const core::ModelConfig& c) { return parts_with(c, c.norm_eps, 10000.0); }

const std::vector<Mistake<LayerParts>> kLlamaMistakes{
    {"one_norm_for_both", "HasTheParametersOfALlama", "its own two norms", one_norm_for_both},
    {"eps_of_no_configuration", "LogitsEqualOurs", "norm_eps", eps_of_no_configuration},
    {"theta_of_no_configuration", "LogitsEqualOurs", "rope_theta", theta_of_no_configuration},
};

}  // namespace

nn::BlockParts MyParts::block_parts(const core::ModelConfig& c, nn::RopeCache /*ours*/, int64_t /*layer*/) const {
  return chosen(kLlamaMistakes, sound_parts)(c);
}

}  // namespace folio::exercises
