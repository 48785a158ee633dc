#include "train/run/weights.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include "modules/families/parts.h"
#include "tests/train/support.h"

namespace folio::train {
namespace {

core::ModelConfig model_shape(bool tied) {
  core::ModelConfig c = test::small_config().model;
  c.vocab_size = 13;
  c.tie_embeddings = tied;
  return c;
}

class TiedWeights : public testing::TestWithParam<bool> {};

TEST_P(TiedWeights, RoundTripKeepsEveryBit) {
  nn::Llama a = nn::family_llama(model_shape(GetParam()));
  nn::Llama b = nn::family_llama(model_shape(GetParam()));
  EXPECT_FALSE(test::same_bits(test::copies(a), test::copies(b)));
  load_weights(weights_of(a), b);
  EXPECT_TRUE(test::same_bits(test::copies(a), test::copies(b)));
}

TEST_P(TiedWeights, AreInManifestOrder) {
  nn::Llama model = nn::family_llama(model_shape(GetParam()));
  const core::Weights weights = weights_of(model);
  const auto manifest = core::tensor_manifest(weights.config);
  ASSERT_EQ(weights.tensors.size(), manifest.size());
  const auto parameters = model->named_parameters();
  for (size_t i = 0; i < manifest.size(); ++i) {
    const torch::Tensor& p = parameters[manifest[i].module_name];
    ASSERT_EQ(static_cast<int64_t>(weights.tensors[i].size()), p.numel());
    EXPECT_EQ(weights.tensors[i].front(), p.view(-1)[0].item<float>());
    EXPECT_EQ(weights.tensors[i].back(), p.view(-1)[-1].item<float>());
  }
}

TEST_P(TiedWeights, AreCopies) {
  nn::Llama model = nn::family_llama(model_shape(GetParam()));
  const core::Weights weights = weights_of(model);
  const float before = weights.tensors[0][0];
  const torch::NoGradGuard no_grad;
  model->parameters()[0].add_(1.0);
  EXPECT_EQ(weights.tensors[0][0], before);
}

INSTANTIATE_TEST_SUITE_P(TiedAndUntied, TiedWeights, testing::Bool(),
                         [](const auto& info) { return info.param ? "Tied" : "Untied"; });

}  // namespace
}  // namespace folio::train
