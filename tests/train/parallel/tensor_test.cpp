// Tests collectives with gradients, and layers divided among tensor ranks, against one process. Ranks are threads.
#include "train/parallel/tensor.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <numeric>
#include <vector>

#include "modules/families/attention.h"
#include "modules/families/latent_attention.h"
#include "modules/families/parts.h"
#include "modules/swiglu.h"
#include "tests/train/parallel/layer_on_ranks.h"
#include "train/parallel/collectives.h"

namespace folio::train::parallel {
namespace {

using folio::test::expect_close;
using folio::test::in_double;
using folio::test::randn;
using torch::Tensor;
using torch::nn::AnyModule;

core::ModelConfig config_for(core::Family family, int64_t n_heads, int64_t n_kv_heads) {
  return {.family = family,
          .vocab_size = 1,
          .dim = 10,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .head_dim = 4,
          .context_length = 32};
}

// Returns the configuration of one of t ranks, which has 1/t of the heads.
core::ModelConfig divided(core::ModelConfig c, int64_t t) {
  c.n_heads /= t;
  c.n_kv_heads /= t;
  return c;
}

TEST(Collectives, GatherGradientIsTheSumOverRanks) {
  for (const int64_t n : {1, 2, 3}) {
    for (const int64_t dim : {0, 1}) {
      const Tensor x = randn({2 * n, 3 * n, 2}), r = randn({n, 2 * n, 3 * n, 2});
      test::on_ranks(test::mesh_of({{Axis::Tensor, n}}), [&](World& world) {
        Group& group = world.along({Axis::Tensor});
        const auto i = static_cast<size_t>(group.index());
        const auto own = x.chunk(n, dim)[i].clone().set_requires_grad(true);
        const auto all = gather_rows(own, dim, group);
        EXPECT_TRUE(torch::equal(all, x));
        (all * r[group.index()]).sum().backward();
        expect_close(own.grad(), r.sum(0).chunk(n, dim)[i], 1e-14);
      });
    }
  }
}

TEST(Collectives, ReduceScatterGradientIsGathered) {
  for (const int64_t n : {1, 2, 3}) {
    for (const int64_t dim : {0, 1}) {
      const Tensor x = randn({n, 2 * n, 3 * n, 2}), r = randn({2 * n, 3 * n, 2});
      test::on_ranks(test::mesh_of({{Axis::Tensor, n}}), [&](World& world) {
        Group& group = world.along({Axis::Tensor});
        const auto i = static_cast<size_t>(group.index());
        const auto term = x[group.index()].clone().set_requires_grad(true);
        const auto own = sum_scatter_rows(term, dim, group);
        expect_close(own, x.sum(0).chunk(n, dim)[i], 1e-14);
        (own * r.chunk(n, dim)[i]).sum().backward();
        EXPECT_TRUE(torch::equal(term.grad(), r));
      });
    }
  }
}

TEST(Collectives, AllToAllGradientsReturnToTheirSources) {
  // rows[i][j] is the number of rows that rank i sends to rank j. Some ranks send none.
  const std::vector<std::vector<int64_t>> rows = {{1, 0, 3}, {2, 2, 0}, {0, 4, 1}};
  const Tensor x = randn({3, 5, 2});
  test::on_ranks(test::mesh_of({{Axis::Tensor, 3}}), [&](World& world) {
    Group& group = world.along({Axis::Tensor});
    const auto i = static_cast<size_t>(group.index());
    std::vector<int64_t> received;
    std::vector<Tensor> expected;
    for (size_t j = 0; j < 3; ++j) {
      received.push_back(rows[j][i]);
      const int64_t first = std::accumulate(rows[j].begin(), rows[j].begin() + static_cast<int64_t>(i), int64_t{0});
      expected.push_back(x[static_cast<int64_t>(j)].narrow(0, first, rows[j][i]));
    }
    const int64_t n = std::accumulate(rows[i].begin(), rows[i].end(), int64_t{0});
    const auto own = x[group.index()].narrow(0, 0, n).clone().set_requires_grad(true);
    const auto here = exchange_rows(own, rows[i], received, group);
    EXPECT_TRUE(torch::equal(here, torch::cat(expected)));
    here.square().sum().backward();  // the gradient of a row is twice the row
    EXPECT_TRUE(torch::equal(own.grad(), 2 * own));
  });
}

TEST(TensorParallel, SplitHeadsMatchFullAttention) {
  for (const int64_t t : {1, 2, 3, 4}) {
    // Tests a plain Llama, one with biases, and one with normalized heads, whose norm weights every rank has.
    for (const auto family : {core::Family::Llama, core::Family::Qwen2, core::Family::Qwen3}) {
      const auto c = config_for(family, 12, t == 4 ? 4 : 6);
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

// Latents and their norms are computed by every rank; their gradients are sums over the ranks' heads.
TEST(TensorParallel, SplitHeadsMatchLatentAttention) {
  for (const int64_t q_lora_rank : {0, 5}) {
    auto c = config_for(core::Family::Youtu, 6, 6);
    c.head_dim = 7;
    c.kv_lora_rank = 6;
    c.q_lora_rank = q_lora_rank;
    c.qk_nope_head_dim = 3;
    c.qk_rope_head_dim = 4;
    c.v_head_dim = 2;
    const auto rope = nn::FamilyParts().rope(c);
    test::expect_whole_layer(
        AnyModule(in_double(nn::LatentAttention(c, rope), 0.3)), test::mesh_of({{Axis::Tensor, 3}}),
        [&](World& world) {
          return tensor_parallel(AnyModule(nn::LatentAttention(divided(c, 3), rope)), world.along({Axis::Tensor}));
        },
        randn({2, 12, c.dim}));
  }
}

TEST(TensorParallel, PackedSequencesDoNotAttendToEachOther) {
  const auto c = config_for(core::Family::Llama, 4, 2);
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
    const auto c = config_for(core::Family::Llama, 2, 2);
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
