// Tests of any causal self-attention with rotary positions and grouped heads. The tested type has `static Holder
// make(const core::ModelConfig&)`, which returns a holder with nn::Attention's `forward`, `weights` and matrices.
#pragma once

#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <string>
#include <vector>

#include "modules/rope.h"
#include "tests/modules/gradient_check.h"
#include "tests/modules/support.h"

namespace folio::test {

inline core::ModelConfig config_of(int64_t n_heads, int64_t n_kv_heads, int64_t head_dim, int64_t context = 64) {
  return {.vocab_size = 1,
          .dim = n_heads * head_dim,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .context_length = context};
}

/// Returns the tested attention module in double. Its random weights roughly preserve the magnitude of the inputs.
template <typename Maker>
auto random_attention(const core::ModelConfig& config) {
  return in_double(Maker::make(config), 1.0 / std::sqrt(config.dim));
}

template <typename Holder>
torch::Tensor weight(Holder& attention, const std::string& name) {
  return attention->named_parameters()[name + ".weight"];
}

/// Returns the product of x [B, T, dim] with the matrix `name`, as [B, T, heads, head_dim].
template <typename Holder>
torch::Tensor projected(Holder& attention, const torch::Tensor& x, const std::string& name, int64_t heads) {
  return x.matmul(weight(attention, name).t()).unflatten(-1, {heads, -1});
}

/// Returns the tolerance for rounding errors of the sums over dim, head_dim and T positions: 4 eps per term, times
/// (1 + the largest magnitude in `scale`).
inline double attention_tolerance(const core::ModelConfig& config, int64_t T, const torch::Tensor& scale) {
  return 4 * kEps * static_cast<double>(2 * config.dim + config.head_dim + T) * (1 + largest(scale));
}

/// The sizes of an attention module, and of its input of B sequences with T positions.
struct AttentionSize {
  int64_t n_heads, n_kv_heads, head_dim, B, T;
};
inline const std::vector<AttentionSize> kAttentionSizes{{4, 4, 8, 2, 16}, {6, 3, 4, 2, 7},  {4, 1, 6, 3, 9},
                                                        {3, 1, 2, 1, 5},  {1, 1, 10, 3, 1}, {5, 5, 2, 1, 1},
                                                        {2, 1, 4, 1, 33}};

template <typename Maker>
class Attention : public testing::Test {
 protected:
  /// Calls check(attention, config, x, T) for each of kAttentionSizes.
  template <typename Check>
  void for_each_size(Check check) {
    for (const auto& [n_heads, n_kv_heads, head_dim, B, T] : kAttentionSizes) {
      const auto config = config_of(n_heads, n_kv_heads, head_dim);
      auto attention = random_attention<Maker>(config);
      check(attention, config, randn({B, T, config.dim}), T);
      if (this->HasFailure()) return;
    }
  }
};
TYPED_TEST_SUITE_P(Attention);

TYPED_TEST_P(Attention, EachRowOfWeightsSumsToOne) {
  this->for_each_size([](auto& attention, const core::ModelConfig& config, const torch::Tensor& x, int64_t T) {
    const auto weights = attention->weights(x);
    ASSERT_EQ(weights.sizes(), (std::vector<int64_t>{x.size(0), config.n_heads, T, T}))
        << "The weights are [B, n_heads, T, T]: for each head, one of each position for each.";
    const auto sums = weights.sum(-1);
    expect_close(
        sums, torch::ones_like(sums), static_cast<double>(T + 2) * kEps,
        "Row t has the shares of position t in what it looks at, and they sum to 1: the softmax is over the last "
        "axis, the keys, not over the queries. Masked scores are -infinity before it, not 0 after it.");
  });
  EXPECT_TRUE(TypeParam::make(config_of(2, 1, 4))->weights(torch::randn({1, 3, 8})).scalar_type() == torch::kFloat)
      << "The weights have x's type: a mask in double that is added to the scores makes doubles of them.";
}

TYPED_TEST_P(Attention, ALaterTokenChangesNoEarlierOutput) {
  this->for_each_size([](auto& attention, const core::ModelConfig&, const torch::Tensor& x, int64_t T) {
    const auto y = attention->forward(x);
    ASSERT_EQ(y.sizes(), x.sizes()) << "The output has the input's shape: the heads are joined again.";
    for (int64_t t = 0; t < T; ++t) {
      auto changed = x.clone();
      changed.select(1, t).normal_();
      const auto z = attention->forward(changed);
      ASSERT_TRUE(torch::equal(z.slice(1, 0, t), y.slice(1, 0, t)))
          << "Position " << t
          << " changed, and so did an output before it. A position sees itself and those before it: "
          << "the scores of later ones have to be masked.";
      for (int64_t later = t; later < T; ++later) {
        EXPECT_FALSE(torch::equal(z.select(1, later), y.select(1, later)))
            << "Position " << later << " has to see position " << t << ".";
      }
    }
  });
}

TYPED_TEST_P(Attention, WeightsAreCausalAndPositive) {
  this->for_each_size([](auto& attention, const core::ModelConfig&, const torch::Tensor& x, int64_t T) {
    const auto weights = attention->weights(x);
    expect_equal(weights.triu(1), torch::zeros_like(weights), "A weight above the diagonal is one of the future: 0.");
    for (int64_t t = 0; t < T; ++t) {
      EXPECT_GT(weights.select(2, t).slice(-1, 0, t + 1).min().template item<double>(), 0.0)
          << "Position " << t << " attends to itself and to each one before it, if only a little: e^score is positive.";
    }
  });
}

TYPED_TEST_P(Attention, EqualKeysGiveTheMeanOfThePast) {
  auto attention = random_attention<TypeParam>(config_of(2, 2, 4));
  const torch::NoGradGuard no_grad;
  weight(attention, "wk").zero_();
  const auto past = torch::ones({5, 5}, torch::kDouble).tril() / torch::arange(1, 6, torch::kDouble).unsqueeze(1);
  const auto weights = attention->weights(randn({1, 5, 8}));
  expect_close(weights, past.expand_as(weights), 5 * kEps,
               "Keys of 0 give scores of 0, and equal scores give equal weights to all positions so far.");
}

TYPED_TEST_P(Attention, ScoresAreRotatedAndScaled) {
  const auto config = config_of(2, 2, 6);  // two heads, so that dim differs from head_dim
  auto attention = random_attention<TypeParam>(config);
  const auto x = randn({1, 9, 12});
  const nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
  const auto q = rope->apply(projected(attention, x, "wq", 2)).transpose(1, 2);
  const auto k = rope->apply(projected(attention, x, "wk", 2)).transpose(1, 2);
  const auto later = torch::ones({9, 9}, torch::kBool).triu(1);
  const auto scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(6.0);
  const auto expected = scores.masked_fill(later, -INFINITY).softmax(-1);
  expect_close(
      attention->weights(x), expected, attention_tolerance(config, 9, scores),
      "The score of t for u is q_t k_u / sqrt(head_dim), and q and k are rotated by their positions first. The root is "
      "that of one head's width, not of the model's, dim.");
}

TYPED_TEST_P(Attention, GroupedHeadsEqualRepeatedHeads) {
  this->for_each_size([](auto& attention, const core::ModelConfig& config, const torch::Tensor& x, int64_t T) {
    auto full = config;
    full.n_kv_heads = config.n_heads;
    auto mha = random_attention<TypeParam>(full);
    const torch::NoGradGuard no_grad;
    for (const std::string name : {"wq", "wk", "wv", "wo"}) {
      auto source = weight(attention, name);
      if (name == "wk" || name == "wv") {
        source = source.reshape({config.n_kv_heads, config.head_dim, config.dim})
                     .repeat_interleave(config.n_heads / config.n_kv_heads, 0)
                     .reshape({config.dim, config.dim});
      }
      weight(mha, name).copy_(source);
    }
    expect_close(attention->forward(x), mha->forward(x), attention_tolerance(config, T, x),
                 "Query head h reads key/value head h / (n_heads / n_kv_heads): neighbours share one, as "
                 "repeat_interleave repeats, not repeat.");
  });
}

TYPED_TEST_P(Attention, EqualsLibTorchOnExplicitProjections) {
  this->for_each_size([](auto& attention, const core::ModelConfig& config, const torch::Tensor& x, int64_t T) {
    const nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
    const int64_t group = config.n_heads / config.n_kv_heads;
    const auto shared = [&](const torch::Tensor& heads) { return heads.repeat_interleave(group, 2).transpose(1, 2); };
    const auto q = rope->apply(projected(attention, x, "wq", config.n_heads)).transpose(1, 2);
    const auto k = shared(rope->apply(projected(attention, x, "wk", config.n_kv_heads)));
    const auto v = shared(projected(attention, x, "wv", config.n_kv_heads));
    const auto y = at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
    const auto expected = y.transpose(1, 2).flatten(2).matmul(weight(attention, "wo").t());
    expect_close(
        attention->forward(x), expected, attention_tolerance(config, T, v),
        "The weights are right. Values are wv x, and are not rotated; the heads' outputs stand side by side and "
        "go through wo.");
  });
}

TYPED_TEST_P(Attention, GradientsEqualCentralDifferences) {
  for (const int64_t n_kv_heads : {2, 1}) {
    auto attention = random_attention<TypeParam>(config_of(2, n_kv_heads, 4));
    const auto x = randn({2, 3, 8});
    SCOPED_TRACE("Autograd's gradients are wrong: was a value taken out of the graph, by detach() or item()?");
    expect_gradients([&] { return attention->forward(x); }, leaves(x, *attention));
  }
}

REGISTER_TYPED_TEST_SUITE_P(Attention, EachRowOfWeightsSumsToOne, ALaterTokenChangesNoEarlierOutput,
                            WeightsAreCausalAndPositive, EqualKeysGiveTheMeanOfThePast, ScoresAreRotatedAndScaled,
                            GroupedHeadsEqualRepeatedHeads, EqualsLibTorchOnExplicitProjections,
                            GradientsEqualCentralDifferences);

}  // namespace folio::test
