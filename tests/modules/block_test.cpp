// Tests modules/block.h: the properties of a residual block, and that its parts are replaceable.
#include "modules/block.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "tests/modules/properties/block_properties.h"
#include "tests/modules/support.h"

namespace folio::test {
namespace {

using torch::nn::AnyModule;

nn::Block make(double dropout = 0.0) {
  const nn::Parts parts({.dropout = dropout});
  return parts.block(kBlockConfig, parts.rope(kBlockConfig), /*layer=*/0);
}

nn::BlockParts identities() {
  const auto identity = [] { return AnyModule(torch::nn::Identity()); };
  return {.attention_norm = identity(), .attention = identity(), .ffn_norm = identity(), .ffn = identity()};
}

/// An invalid submodule of a block. It returns one position, which the residual sum would broadcast without an error.
struct FirstPositionImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x.slice(1, 0, 1); }
};
TORCH_MODULE(FirstPosition);

INSTANTIATE_TYPED_TEST_SUITE_P(Ours, Block, nn::Block);

TEST(BlockModule, PartsAreReplaceable) {
  nn::Block doubles_twice(identities());
  const auto x = torch::randn({2, 5, 8});
  EXPECT_TRUE(torch::equal(doubles_twice->forward(x), 4 * x));

  auto parts = identities();
  parts.ffn = AnyModule(torch::nn::Linear(8, 8));
  nn::Block block(parts);
  auto linear = parts.ffn.get<torch::nn::Linear>();
  EXPECT_TRUE(torch::equal(block->forward(x), 2 * x + linear->forward(2 * x)));
  EXPECT_TRUE(block->named_parameters().contains("ffn.weight"));
}

TEST(BlockModule, DropoutAppliesOnlyInTraining) {
  nn::Block block(identities(), 0.5);
  const auto x = torch::randn({2, 5, 8});
  EXPECT_FALSE(torch::equal(block->forward(x), 4 * x));
  block->eval();
  EXPECT_TRUE(torch::equal(block->forward(x), 4 * x));
}

TEST(BlockModule, RejectsPartsThatChangeTheShape) {
  auto parts = identities();
  parts.attention = AnyModule(FirstPosition());
  nn::Block block(parts);
  expect_error(
      [&] {
        block->forward(torch::zeros({2, 3, 8}));
      },
      {"Block", "attention", "Float [2, 3, 8]", "Float [2, 1, 8]"});
  expect_error([&] { make()->forward(torch::zeros({2, 3, 7})); }, {"[..., 8]", "Float [2, 3, 7]"});
  expect_error([] { make(-0.1); }, {"dropout", "[0, 1)", "-0.1"});
}

}  // namespace
}  // namespace folio::test
