// Runs the tests of Folio's attention on the reader's module, with Folio's RoPE so that only attention is tested.
#include "experiments/exercises/modules/modules.h"
#include "tests/modules/properties/attention_properties.h"

namespace folio::test {

struct YourAttention {
  static exercises::Attention make(const core::ModelConfig& config) {
    const nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
    return exercises::Attention(config, [rope](const torch::Tensor& x) { return rope->apply(x); });
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Yours, Attention, YourAttention);

}  // namespace folio::test
