// The laws are those that our own module is tested by. The rotation is ours, so that attention can be wrong alone.
#include "experiments/exercises/modules/modules.h"
#include "tests/modules/laws/attention_laws.h"

namespace folio::test {

struct YourAttention {
  static exercises::Attention make(const core::ModelConfig& config) {
    const nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
    return exercises::Attention(config, [rope](const torch::Tensor& x) { return rope->apply(x); });
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Yours, Attention, YourAttention);

}  // namespace folio::test
