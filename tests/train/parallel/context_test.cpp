// Tests ring attention (train/parallel/context.h) against attention in one process. Ranks are threads.
#include "train/parallel/context.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "modules/families/attention.h"
#include "modules/families/parts.h"
#include "tests/train/parallel/layer_on_ranks.h"

namespace folio::train::parallel {
namespace {

using folio::test::expect_error;
using folio::test::in_double;
using folio::test::randn;
using test::attention_config;
using torch::Tensor;
using torch::nn::AnyModule;

// Returns the number of pairs (query chunk of `rank`, key chunk of `from`) that `rank` computes. A pair on the diagonal
// counts half, since the causal mask excludes half of it.
double work_of(int64_t rank, int64_t from) {
  const RingBlock block = ring_block(rank, from);
  const double pairs = static_cast<double>((2 - block.first_query) * block.n_keys);
  return block.causal ? pairs / 2 : pairs;
}

TEST(RingBlocks, BalanceWorkAcrossRanks) {
  for (int64_t C = 1; C <= 8; ++C) {
    for (int64_t rank = 0; rank < C; ++rank) {
      double work = 0;
      for (int64_t step = 0; step < C; ++step) {
        EXPECT_EQ(work_of(rank, (rank + C - step) % C), 2.0);
        work += work_of(rank, (rank + C - step) % C);
      }
      EXPECT_EQ(work, 4.0 * static_cast<double>(C) / 2);  // half of the pairs of 2 query and 2C key chunks
    }
  }
}

TEST(ContextAttention, RingMatchesFullAttention) {
  for (const int64_t C : {1, 2, 3, 4}) {
    // Tests one key/value head per query head, one for all query heads, biases, and query and key norms.
    for (const auto& [family, n_kv_heads] : {std::pair<core::Family, int64_t>{core::Family::Llama, 4},
                                             {core::Family::Llama, 1},
                                             {core::Family::Qwen2, 2},
                                             {core::Family::Qwen3, 2}}) {
      const auto c = attention_config(family, 4, n_kv_heads);
      const auto rope = nn::FamilyParts().rope(c);
      test::expect_whole_layer(
          AnyModule(in_double(nn::FamilyAttention(c, rope), 0.3)), test::mesh_of({{Axis::Context, C}}),
          [&](World& world) { return AnyModule(ContextAttention(c, rope, world.along({Axis::Context}))); },
          randn({2, 2 * C * (C == 3 ? 1 : 5), c.dim}));
    }
  }
}

// A sequence's queries, keys and values, with the output and the gradients of sum(r * out) that one process computes.
struct Sequence {
  Tensor q, k, v, r, out;

  explicit Sequence(torch::ScalarType type, double magnitude) {
    torch::manual_seed(1);  // so that values don't depend on earlier tests
    const auto made = [&](int64_t heads) { return (magnitude * randn({1, heads, 16, 8})).to(type); };
    q = made(4);
    k = made(2);
    v = randn({1, 2, 16, 8}).to(type);
    r = randn({1, 4, 16, 8}).to(type);
    for (Tensor* x : {&q, &k, &v}) x->set_requires_grad(true);
    // The reference is computed in double, whatever the tested type is.
    const auto wide = [](const Tensor& x) { return x.to(torch::kDouble); };
    out = at::scaled_dot_product_attention(wide(q), wide(k), wide(v), {}, 0.0, /*is_causal=*/true, 1.0,
                                           /*enable_gqa=*/true);
    (out * wide(r)).sum().backward();
  }

  // Computes outputs and gradients on two ranks. Returns their largest difference from those of one process, relative
  // to the largest value if that exceeds 1.
  [[nodiscard]] double largest_error() const {
    std::vector<double> errors(2);
    test::on_ranks(test::mesh_of({{Axis::Context, 2}}), [&](World& world) {
      const auto own = [&](const Tensor& x) { return test::context_positions_of(x, world.mesh(), 2); };
      std::vector<Tensor> leaves;
      for (const Tensor& x : {q, k, v}) leaves.push_back(own(x.detach()).set_requires_grad(true));
      const Tensor y = ring_attention(leaves[0], leaves[1], leaves[2], 1.0, world.along({Axis::Context}));
      (y * own(r)).sum().backward();
      const auto compare = [&](const Tensor& actual, const Tensor& expected) {
        EXPECT_TRUE(actual.isfinite().all().item<bool>());
        auto& error = errors[static_cast<size_t>(world.mesh().rank())];
        const double scale = std::max(1.0, expected.abs().max().item<double>());
        error = std::max(error, (actual.to(torch::kDouble) - own(expected)).abs().max().item<double>() / scale);
      };
      compare(y, out.detach());
      compare(leaves[0].grad(), q.grad());
      compare(leaves[1].grad(), k.grad());
      compare(leaves[2].grad(), v.grad());
    });
    return *std::max_element(errors.begin(), errors.end());
  }
};

TEST(RingAttention, MergesBlocksOfAnyMagnitude) {
  // Scores reach thousands, so e^score overflows even in double.
  EXPECT_LT(Sequence(torch::kDouble, 30.0).largest_error(), 1e-9);
}

TEST(RingAttention, RoundsToTheInputType) {
  EXPECT_LT(Sequence(torch::kFloat, 1.0).largest_error(), 1e-5);
  // Softmax weights, outputs and gradients are rounded to 8 significant bits. Blocks are merged in float32.
  EXPECT_LT(Sequence(torch::kBFloat16, 1.0).largest_error(), 4.0 / 256);
}

TEST(RingAttention, SendsTheDocumentedBytes) {
  constexpr int64_t C = 3, B = 2, H = 4, G = 2, K = 8, kLength = 2 * C * 2;
  test::on_ranks(test::mesh_of({{Axis::Context, C}}), [&](World& world) {
    Group& group = world.along({Axis::Context});
    const auto made = [&](int64_t heads) { return torch::randn({B, heads, kLength / C, K}).set_requires_grad(true); };
    const int64_t before = group.bytes_sent(), numbers = 2 * B * G * (kLength / C) * K;
    const Tensor y = ring_attention(made(H), made(G), made(G), 0.5, group);
    EXPECT_EQ(group.bytes_sent() - before, (C - 1) * numbers * 4);
    y.sum().backward();
    EXPECT_EQ(group.bytes_sent() - before, (C - 1 + 2 * C - 1) * numbers * 4);
  });
}

TEST(ContextAttention, RejectsUnsupportedConfigurationsByName) {
  test::on_ranks(test::mesh_of({{Axis::Context, 1}}), [&](World& world) {
    Group& group = world.along({Axis::Context});
    const auto made = [&](core::ModelConfig c, double dropout = 0.0) {
      return ContextAttention(c, nn::FamilyParts().rope(c), group, dropout);
    };
    const auto plain = attention_config(core::Family::Llama, 2, 2);
    auto windowed = attention_config(core::Family::Mistral, 2, 2);
    windowed.sliding_window = 4;
    auto capped = attention_config(core::Family::Gemma2, 2, 2);
    capped.attention_cap = 50.0F;
    expect_error([&] { made(windowed); }, {"context ranks", "sliding window", "--context-parallel 1"});
    expect_error([&] { made(capped); }, {"context ranks", "cap", "--context-parallel 1"});
    expect_error([&] { made(plain, 0.1); }, {"context ranks", "dropout", "--context-parallel 1"});
    auto attention = made(plain);
    expect_error(
        [&] {
          attention->forward(torch::zeros({1, 4, plain.dim}), torch::zeros({1, 4}, torch::kInt64));
        },
        {"sequences", "--context-parallel 1"});
  });
}

}  // namespace
}  // namespace folio::train::parallel
