// The laws of causal self-attention, for both forms and for every kind of head sharing.
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <string>
#include <tuple>

#include "gradient_check.h"
#include "modules/attention.h"
#include "support.h"

namespace folio::test {
namespace {

using nn::AttentionKind;

core::ModelConfig config_of(int64_t n_heads, int64_t n_kv_heads, int64_t head_dim, int64_t context = 64) {
  return {.vocab_size = 1,
          .dim = n_heads * head_dim,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .context_length = context};
}

/// An attention in double with random weights of about unit gain.
nn::Attention make(const core::ModelConfig& config, AttentionKind kind = AttentionKind::Plain, double dropout = 0.0) {
  nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
  auto attention = in_double(nn::Attention(config, rope, dropout), 1.0 / std::sqrt(config.dim));
  attention->kind = kind;
  return attention;
}

torch::Tensor weight(nn::Attention& attention, const std::string& name) {
  return attention->named_parameters()[name + ".weight"];
}

/// The bound for two orders of summation: a few eps for each of the sums over dim, head_dim, T and dim.
double tolerance(const core::ModelConfig& config, int64_t T, const torch::Tensor& scale) {
  return 4 * kEps * static_cast<double>(2 * config.dim + config.head_dim + T) * (1 + largest(scale));
}

/// Kind, n_heads, n_kv_heads, head_dim, B, T: odd sizes, batch 1 and length 1 among them.
using Case = std::tuple<AttentionKind, int64_t, int64_t, int64_t, int64_t, int64_t>;
class Attention : public testing::TestWithParam<Case> {
 protected:
  AttentionKind kind = std::get<0>(GetParam());
  core::ModelConfig config = config_of(std::get<1>(GetParam()), std::get<2>(GetParam()), std::get<3>(GetParam()));
  int64_t B = std::get<4>(GetParam()), T = std::get<5>(GetParam());
  torch::Tensor x = randn({B, T, config.dim});
  nn::Attention attention = make(config, kind);
};

TEST_P(Attention, ALaterTokenChangesNoEarlierOutput) {
  const auto y = attention->forward(x);
  for (int64_t t = 0; t < T; ++t) {
    auto changed = x.clone();
    changed.select(1, t).normal_();
    const auto z = attention->forward(changed);
    EXPECT_TRUE(torch::equal(z.slice(1, 0, t), y.slice(1, 0, t))) << "position " << t;
    for (int64_t later = t; later < T; ++later) EXPECT_FALSE(torch::equal(z.select(1, later), y.select(1, later)));
  }
}

TEST_P(Attention, EqualsLibTorchOnExplicitProjections) {
  nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
  const auto project = [&](const std::string& name, int64_t heads) {
    return x.matmul(weight(attention, name).t()).reshape({B, T, heads, config.head_dim});
  };
  const int64_t group = config.n_heads / config.n_kv_heads;
  const auto q = rope->apply(project("wq", config.n_heads)).transpose(1, 2);
  const auto k = rope->apply(project("wk", config.n_kv_heads)).repeat_interleave(group, 2).transpose(1, 2);
  const auto v = project("wv", config.n_kv_heads).repeat_interleave(group, 2).transpose(1, 2);
  const auto y = at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
  const auto expected = y.transpose(1, 2).reshape({B, T, config.dim}).matmul(weight(attention, "wo").t());
  expect_close(attention->forward(x), expected, tolerance(config, T, v));
}

TEST_P(Attention, WeightsAreCausalAndRowsSumToOne) {
  const auto weights = attention->weights(x);
  ASSERT_EQ(weights.sizes(), (std::vector<int64_t>{B, config.n_heads, T, T}));
  EXPECT_TRUE(torch::equal(weights.triu(1), torch::zeros_like(weights)));
  EXPECT_GE(weights.min().item<double>(), 0.0);
  const auto sums = weights.sum(-1);
  expect_close(sums, torch::ones_like(sums), static_cast<double>(T + 2) * kEps);
  for (int64_t t = 0; t < T; ++t) EXPECT_GT(weights.select(2, t).slice(-1, 0, t + 1).min().item<double>(), 0.0);
}

TEST_P(Attention, GroupedHeadsEqualRepeatedHeads) {
  auto full = config;
  full.n_kv_heads = config.n_heads;
  auto mha = make(full, kind);
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
  const auto y = mha->forward(x);
  expect_close(attention->forward(x), y, tolerance(config, T, x));
}

TEST_P(Attention, PlainAndFusedAgreeInValuesAndGradients) {
  auto all = leaves(x.set_requires_grad(true), *attention);
  const auto r = randn({B, T, config.dim});
  const auto run = [&](AttentionKind which) {
    attention->kind = which;
    const auto y = attention->forward(x);
    auto results = torch::autograd::grad({(r * y).sum()}, all);
    results.push_back(y.detach());
    return results;
  };
  const auto plain = run(AttentionKind::Plain), fused = run(AttentionKind::Fused);
  for (size_t i = 0; i < plain.size(); ++i) {
    // Gradients of weights are sums over B · T positions more.
    expect_close(fused[i], plain[i], static_cast<double>(B * T) * tolerance(config, T, plain[i]));
  }
}

TEST_P(Attention, ABatchIsItsSequences) {
  const auto y = attention->forward(x);
  for (int64_t b = 0; b < B; ++b) {
    expect_close(attention->forward(x.slice(0, b, b + 1)), y.slice(0, b, b + 1), tolerance(config, T, y));
  }
}

constexpr auto kPlain = AttentionKind::Plain, kFused = AttentionKind::Fused;
INSTANTIATE_TEST_SUITE_P(Sizes, Attention,
                         testing::Values(Case{kPlain, 4, 4, 8, 2, 16}, Case{kFused, 4, 4, 8, 2, 16},  // MHA
                                         Case{kPlain, 6, 3, 4, 2, 7}, Case{kFused, 6, 3, 4, 2, 7},    // GQA
                                         Case{kPlain, 4, 1, 6, 3, 9}, Case{kFused, 4, 1, 6, 3, 9},    // MQA
                                         Case{kPlain, 3, 1, 2, 1, 5}, Case{kFused, 3, 1, 2, 1, 5},
                                         Case{kPlain, 1, 1, 10, 3, 1}, Case{kFused, 1, 1, 10, 3, 1},
                                         Case{kPlain, 5, 5, 2, 1, 1}, Case{kFused, 5, 5, 2, 1, 1},
                                         Case{kPlain, 2, 1, 4, 1, 33}, Case{kFused, 2, 1, 4, 1, 33}));

TEST(AttentionLaws, GradientsEqualCentralDifferences) {
  for (const auto kind : {kPlain, kFused}) {
    for (const int64_t n_kv_heads : {2, 1}) {
      auto attention = make(config_of(2, n_kv_heads, 4), kind);
      const auto x = randn({2, 3, 8});
      expect_gradients([&] { return attention->forward(x); }, leaves(x, *attention));
    }
  }
}

TEST(AttentionLaws, EqualKeysGiveTheMeanOfThePast) {
  const auto config = config_of(2, 2, 4);
  auto attention = make(config);
  const torch::NoGradGuard no_grad;
  weight(attention, "wk").zero_();
  const auto past = torch::ones({5, 5}, torch::kDouble).tril() / torch::arange(1, 6, torch::kDouble).unsqueeze(1);
  const auto weights = attention->weights(randn({1, 5, 8}));
  expect_close(weights, past.expand_as(weights), 5 * kEps);
}

TEST(AttentionLaws, DropoutActsInTrainingOnly) {
  for (const auto kind : {kPlain, kFused}) {
    const auto config = config_of(2, 2, 4);
    auto attention = make(config, kind, 0.5);
    const auto x = randn({2, 8, 8});
    attention->eval();
    const auto y = attention->forward(x);
    EXPECT_TRUE(torch::equal(attention->forward(x), y));
    attention->train();
    EXPECT_FALSE(torch::equal(attention->forward(x), y));
    EXPECT_FALSE(torch::equal(attention->forward(x), attention->forward(x)));
    // Dropped weights are 0 and the others doubled, so that the mean over many draws is the value without dropout. Each
    // number's deviation is at most the sum of |w v| over the past, projected; six standard errors are granted.
    constexpr int kDraws = 2000;
    auto sum = torch::zeros_like(y), squares = torch::zeros_like(y);
    const torch::NoGradGuard no_grad;
    for (int i = 0; i < kDraws; ++i) {
      const auto draw = attention->forward(x);
      sum += draw;
      squares += draw.square();
    }
    const auto mean = sum / kDraws;
    const auto standard_error = ((squares / kDraws - mean.square()) / kDraws).sqrt();
    EXPECT_TRUE(((mean - y).abs() <= 6 * standard_error).all().item<bool>());
  }
}

TEST(AttentionLaws, HasFourMatricesAndNothingElse) {
  auto attention = make(config_of(4, 2, 6));
  EXPECT_TRUE(attention->buffers().empty());
  ASSERT_EQ(attention->parameters().size(), 4U);
  EXPECT_EQ(weight(attention, "wq").sizes(), (std::vector<int64_t>{24, 24}));
  EXPECT_EQ(weight(attention, "wk").sizes(), (std::vector<int64_t>{12, 24}));
  EXPECT_EQ(weight(attention, "wv").sizes(), (std::vector<int64_t>{12, 24}));
  EXPECT_EQ(weight(attention, "wo").sizes(), (std::vector<int64_t>{24, 24}));
}

TEST(AttentionLaws, RefusesOtherSizes) {
  auto attention = make(config_of(2, 2, 4, /*context=*/8));
  expect_error([&] { attention->forward(randn({2, 3, 7})); }, {"Attention", "[B, T, 8]", "Double [2, 3, 7]"});
  expect_error([&] { attention->weights(randn({3, 8})); }, {"[B, T, 8]", "Double [3, 8]"});
  expect_error([&] { attention->forward(randn({1, 9, 8})); }, {"[0, 8)", "[0, 9)"});
  expect_error([] { make(config_of(3, 2, 4)); }, {"n_heads 3", "n_kv_heads 2"});
  expect_error([] { make(config_of(2, 2, 4), kPlain, 1.0); }, {"dropout", "[0, 1)", "1"});
}

}  // namespace
}  // namespace folio::test
