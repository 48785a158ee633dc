// Tests ring attention (train/parallel/context.h) against attention in one process. Ranks are threads. meshes_test.cpp
// tests whole models.
#include "train/parallel/context.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <vector>

#include "modules/families/parts.h"
#include "tests/modules/support.h"
#include "tests/train/parallel/support.h"

namespace folio::train::parallel {
namespace {

using folio::test::expect_error;
using folio::test::randn;
using torch::Tensor;

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
      const auto own = [rank = world.mesh().rank()](const Tensor& x) {  // chunks c and 3 - c of four
        const auto chunks = x.chunk(4, 2);
        return torch::cat({chunks[static_cast<size_t>(rank)], chunks[static_cast<size_t>(3 - rank)]}, 2);
      };
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
    const core::ModelConfig plain{.vocab_size = 1, .dim = 8, .n_heads = 2, .n_kv_heads = 2, .context_length = 8};
    core::ModelConfig windowed = plain, capped = plain;
    windowed.family = core::Family::Mistral;
    windowed.sliding_window = 4;
    capped.family = core::Family::Gemma2;
    capped.attention_cap = 50.0F;
    expect_error([&] { made(windowed); }, {"context ranks", "sliding window", "--context-parallel 1"});
    expect_error([&] { made(capped); }, {"context ranks", "cap", "--context-parallel 1"});
    expect_error([&] { made(plain, 0.1); }, {"context ranks", "dropout", "--context-parallel 1"});
  });
}

}  // namespace
}  // namespace folio::train::parallel
