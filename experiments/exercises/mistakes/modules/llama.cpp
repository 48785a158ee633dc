#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {
namespace {

using torch::nn::AnyModule;
using Factory = nn::BlockFactory(const core::ModelConfig& config);

// Blocks whose norms have that eps, and whose second norm may be the first.
nn::BlockFactory blocks_of(const core::ModelConfig& config, double eps, double theta, bool one_norm = false) {
  const Rope rope(config.context_length, config.head_dim, theta);
  const Rotate rotate = [rope](const Tensor& x) { return rope->apply(x); };
  return [=](const core::ModelConfig& c, int64_t /*layer*/) {
    const RMSNorm first(c.dim, eps), second(c.dim, eps);
    const nn::BlockParts parts{.attention_norm = AnyModule(first),
                               .attention = AnyModule(Attention(c, rotate)),
                               .ffn_norm = AnyModule(one_norm ? first : second),
                               .ffn = AnyModule(SwiGLU(c.dim, c.hidden_dim))};
    return layer_of(parts);
  };
}

nn::BlockFactory sound_blocks(const core::ModelConfig& c) { return blocks_of(c, c.norm_eps, c.rope_theta); }
nn::BlockFactory one_norm_for_both(const core::ModelConfig& c) { return blocks_of(c, c.norm_eps, c.rope_theta, true); }
nn::BlockFactory eps_of_no_configuration(const core::ModelConfig& c) { return blocks_of(c, 1e-5, c.rope_theta); }
nn::BlockFactory theta_of_no_configuration(const core::ModelConfig& c) { return blocks_of(c, c.norm_eps, 10000.0); }

const std::vector<Mistake<Factory>> kLlamaMistakes{
    {"one_norm_for_both", "HasTheParametersOfALlama", "its own two norms", one_norm_for_both},
    {"eps_of_no_configuration", "LogitsEqualOurs", "norm_eps", eps_of_no_configuration},
    {"theta_of_no_configuration", "LogitsEqualOurs", "rope_theta", theta_of_no_configuration},
};

}  // namespace

nn::BlockFactory my_blocks(const core::ModelConfig& config) { return chosen(kLlamaMistakes, sound_blocks)(config); }

}  // namespace folio::exercises
