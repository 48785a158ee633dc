// Tests of any pre-norm residual block: a module holder that is constructed from nn::BlockParts and has nn::Block's
// `forward`.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "modules/attention.h"
#include "modules/parts.h"
#include "modules/swiglu.h"
#include "tests/modules/gradient_check.h"
#include "tests/modules/support.h"

namespace folio::test {

inline const core::ModelConfig kBlockConfig{
    .vocab_size = 1, .dim = 8, .n_heads = 2, .n_kv_heads = 1, .hidden_dim = 6, .context_length = 16};

inline nn::BlockParts llama_block_parts() {
  const nn::Parts parts;
  return parts.block_parts(kBlockConfig, parts.rope(kBlockConfig), /*layer=*/0);
}

template <typename BlockType>
class Block : public testing::Test {};
TYPED_TEST_SUITE_P(Block);

TYPED_TEST_P(Block, WithZeroProjectionsIsTheIdentity) {
  TypeParam block(llama_block_parts());
  const torch::NoGradGuard no_grad;
  block->named_parameters()["attention.wo.weight"].zero_();
  block->named_parameters()["ffn.w2.weight"].zero_();
  const auto x = torch::randn({2, 5, 8});
  expect_equal(
      block->forward(x), x,
      "Attention and feed-forward say 0 here, so the stream passes as it is. If it does not, a branch is not added to "
      "it, or the stream itself was normalized: x + attention(norm(x)), where x stays x.");
}

TYPED_TEST_P(Block, EqualsTheFormulaOnItsParts) {
  auto block = in_double(TypeParam(llama_block_parts()));
  const auto modules = block->named_children();
  const auto x = randn({2, 5, 8});
  const auto part = [&](const char* name, const torch::Tensor& value) {
    if (auto* norm = modules[name]->template as<nn::RMSNorm>()) return norm->forward(value);
    if (auto* attention = modules[name]->template as<nn::Attention>()) return attention->forward(value);
    return modules[name]->template as<nn::SwiGLU>()->forward(value);
  };
  const auto h = x + part("attention", part("attention_norm", x));
  expect_equal(block->forward(x), h + part("ffn", part("ffn_norm", h)),
               "The feed-forward gets what attention left: h = x + attention(norm(x)), and then h + ffn(norm(h)).");
}

TYPED_TEST_P(Block, GradientsEqualCentralDifferences) {
  auto block = in_double(TypeParam(llama_block_parts()), 0.5);
  const auto x = randn({2, 3, 8});
  SCOPED_TRACE("Autograd's gradients are wrong: was a value taken out of the graph, by detach() or item()?");
  expect_gradients([&] { return block->forward(x); }, leaves(x, *block));
}

REGISTER_TYPED_TEST_SUITE_P(Block, WithZeroProjectionsIsTheIdentity, EqualsTheFormulaOnItsParts,
                            GradientsEqualCentralDifferences);

}  // namespace folio::test
