// Tests layers divided among tensor ranks, against one process. Ranks are threads.
#include "train/parallel/tensor.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "modules/families/attention.h"
#include "modules/families/parts.h"
#include "modules/swiglu.h"
#include "tests/train/parallel/layer_on_ranks.h"

namespace folio::train::parallel {
namespace {

using folio::test::in_double;
using folio::test::randn;
using test::attention_config;
using torch::Tensor;
using torch::nn::AnyModule;

// Returns the configuration of one of t ranks, which has 1/t of the heads.
core::ModelConfig divided(core::ModelConfig c, int64_t t) {
  c.n_heads /= t;
  c.n_kv_heads /= t;
  return c;
}

TEST(TensorParallel, SplitHeadsMatchFullAttention) {
  for (const int64_t t : {1, 2, 3, 4}) {
    // Tests Llama, Qwen2 for its biases, and Qwen3 for its query and key norms, whose weights every rank has.
    for (const auto family : {core::Family::Llama, core::Family::Qwen2, core::Family::Qwen3}) {
      const auto c = attention_config(family, 12, t == 4 ? 4 : 6);
      const auto rope = nn::FamilyParts().rope(c);
      test::expect_whole_layer(
          AnyModule(in_double(nn::FamilyAttention(c, rope), 0.3)), test::mesh_of({{Axis::Tensor, t}}),
          [&](World& world) {
            Group& group = world.along({Axis::Tensor});
            return tensor_parallel(AnyModule(nn::FamilyAttention(divided(c, t), rope)), group);
          },
          randn({2, 12, c.dim}));
    }
  }
}

TEST(TensorParallel, PackedSequencesDoNotAttendToEachOther) {
  const auto c = attention_config(core::Family::Llama, 4, 2);
  const auto rope = nn::FamilyParts().rope(c);
  const auto starts = torch::tensor({{0, 0, 0, 3, 3, 3, 3, 7}, {0, 1, 1, 1, 1, 1, 6, 6}}, torch::kInt64);
  test::expect_whole_layer(
      AnyModule(in_double(nn::FamilyAttention(c, rope), 0.3)), test::mesh_of({{Axis::Tensor, 2}}),
      [&](World& world) {
        return tensor_parallel(AnyModule(nn::FamilyAttention(divided(c, 2), rope)), world.along({Axis::Tensor}));
      },
      randn({2, 8, c.dim}), starts);
}

TEST(TensorParallel, SendsTheDocumentedBytes) {
  constexpr int64_t kT = 3, kB = 2, kLength = 6, kDim = 10;
  test::on_ranks(test::mesh_of({{Axis::Tensor, kT}}), [&](World& world) {
    Group& group = world.along({Axis::Tensor});
    auto layer = tensor_parallel(AnyModule(nn::SwiGLU(kDim, 4)), group);
    const int64_t before = group.bytes_sent(), numbers = 2 * (kT - 1) * kB * kLength * kDim / kT;
    const Tensor y = layer.forward(torch::randn({kB, kLength / kT, kDim}).set_requires_grad(true));
    EXPECT_EQ(group.bytes_sent() - before, numbers * 4);
    y.sum().backward();
    EXPECT_EQ(group.bytes_sent() - before, 2 * numbers * 4);
  });
}

TEST(TensorParallel, TrainingModeReachesTheInnerLayer) {
  test::on_ranks(test::mesh_of({{Axis::Tensor, 2}}), [&](World& world) {
    const auto c = attention_config(core::Family::Llama, 2, 2);
    nn::FamilyAttention inner(c, nn::FamilyParts().rope(c), /*dropout=*/0.5);
    const auto layer = tensor_parallel(AnyModule(inner), world.along({Axis::Tensor}));
    layer.ptr()->eval();
    EXPECT_FALSE(inner->is_training());
    layer.ptr()->train();
    EXPECT_TRUE(inner->is_training());
  });
}

}  // namespace
}  // namespace folio::train::parallel
