// Tests modules/attention.h: the properties of causal self-attention, computed by the formula and by LibTorch's kernel,
// dropout, and errors.
#include "modules/attention.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tests/modules/properties/attention_properties.h"
#include "tests/modules/support.h"

namespace folio::test {
namespace {

constexpr bool kFormula = true, kKernel = false;

template <bool written_out>
struct OurAttention {
  static nn::Attention make(const core::ModelConfig& config, double dropout = 0.0) {
    const nn::RopeCache rope(config.context_length, config.head_dim, config.rope_theta);
    nn::Attention attention(config, rope, dropout);
    attention->written_out = written_out;
    return attention;
  }
};

using BothKinds = testing::Types<OurAttention<kFormula>, OurAttention<kKernel>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Ours, Attention, BothKinds);

nn::Attention make(const core::ModelConfig& config) { return random_attention<OurAttention<kFormula>>(config); }

TEST(AttentionModule, DropoutAppliesOnlyInTraining) {
  for (const bool written_out : {kFormula, kKernel}) {
    auto attention = in_double(OurAttention<kFormula>::make(config_of(2, 2, 4), 0.5), 1.0 / std::sqrt(8));
    attention->written_out = written_out;
    const auto x = randn({2, 8, 8});
    attention->eval();
    const auto y = attention->forward(x);
    EXPECT_TRUE(torch::equal(attention->forward(x), y));
    attention->train();
    EXPECT_FALSE(torch::equal(attention->forward(x), y));
    EXPECT_FALSE(torch::equal(attention->forward(x), attention->forward(x)));
    // Dropped weights are 0 and the others doubled, so the mean over many draws is the value without dropout. The bound
    // is six standard errors of that mean.
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

TEST(AttentionModule, RejectsOtherSizes) {
  auto attention = make(config_of(2, 2, 4, /*context=*/8));
  expect_error([&] { attention->forward(randn({2, 3, 7})); }, {"Attention", "[B, T, 8]", "Double [2, 3, 7]"});
  expect_error([&] { attention->weights(randn({3, 8})); }, {"[B, T, 8]", "Double [3, 8]"});
  expect_error([&] { attention->forward(randn({1, 9, 8})); }, {"[0, 8)", "[0, 9)"});
  expect_error([] { make(config_of(3, 2, 4)); }, {"n_heads 3", "n_kv_heads 2"});
  expect_error([] { OurAttention<kFormula>::make(config_of(2, 2, 4), 1.0); }, {"dropout", "[0, 1)", "1"});
}

}  // namespace
}  // namespace folio::test
