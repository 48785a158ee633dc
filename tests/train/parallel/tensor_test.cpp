// Tests what tensor ranks send, and their training mode. meshes_test.cpp compares them with one process.
#include "train/parallel/tensor.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "modules/families/attention.h"
#include "modules/families/parts.h"
#include "modules/swiglu.h"
#include "tests/train/parallel/support.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;
using torch::nn::AnyModule;

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
    const core::ModelConfig c{.vocab_size = 1, .dim = 8, .n_heads = 2, .n_kv_heads = 2, .context_length = 8};
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
