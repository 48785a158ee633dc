// Tests core/rope_scaling.h: linear scaling divides all frequencies, Llama 3's scaling divides low frequencies and
// interpolates medium ones, and LongRoPE selects its factors by the context length.
#include "core/rope_scaling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace folio::core {
namespace {

ModelConfig llama(float factor) {
  ModelConfig config{.vocab_size = 11, .dim = 256, .n_heads = 2};
  config.rope_theta = 500000.0F;
  config.rope_scaling.factor = factor;
  return config;
}

TEST(RopeScaling, UnscaledFrequenciesArePowersOfTheta) {
  const ModelConfig config = llama(1.0F);
  EXPECT_EQ(rope_factors(config), std::vector<double>(64, 1.0));
  const auto frequencies = rope_frequencies(config);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_DOUBLE_EQ(frequencies[i], std::pow(500000.0, -static_cast<double>(i) / 64.0));
  }
}

TEST(RopeScaling, ScalesSlowPairsAndKeepsFastPairs) {
  const auto plain = rope_frequencies(llama(1.0F));
  const auto scaled = rope_frequencies(llama(8.0F));
  const auto factors = rope_factors(llama(8.0F));
  EXPECT_TRUE(std::is_sorted(factors.begin(), factors.end()));
  size_t between = 0;
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_DOUBLE_EQ(scaled[i] * factors[i], plain[i]);
    const double turns = 8192.0 * plain[i] / (2.0 * std::numbers::pi);
    if (turns < 1.0 || turns > 4.0) {
      EXPECT_EQ(factors[i], turns > 4.0 ? 1.0 : 8.0) << i;
      continue;
    }
    ++between;
    EXPECT_GT(factors[i], 1.0);
    EXPECT_LT(factors[i], 8.0);
    // For pairs that make 1 to 4 turns within the original context, the frequency is interpolated linearly.
    const double share = (turns - 1.0) / 3.0;
    EXPECT_NEAR(scaled[i], (1.0 - share) * plain[i] / 8.0 + share * plain[i], 1e-12);
  }
  EXPECT_GT(between, 3U);
}

TEST(RopeScaling, LinearScalingDividesAllFrequencies) {
  ModelConfig config = llama(1.0F);
  config.rope_scaling = {.type = RopeScalingType::Linear, .factor = 8.0F};
  EXPECT_EQ(rope_factors(config), std::vector<double>(64, 8.0));
}

TEST(RopeScaling, LongRopeFactorsDependOnTheContext) {
  ModelConfig config = llama(1.0F);
  config.rope_scaling = {.type = RopeScalingType::LongRope,
                         .original_context = 4096,
                         .short_factors = std::vector<float>(64, 1.5F),
                         .long_factors = std::vector<float>(64, 3.0F)};
  config.context_length = 4096;
  EXPECT_EQ(rope_factors(config), std::vector<double>(64, 1.5));
  config.context_length = 4097;
  EXPECT_EQ(rope_factors(config), std::vector<double>(64, 3.0));
}

}  // namespace
}  // namespace folio::core
