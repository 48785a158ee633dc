// Tests the model variants that the studies compare: unchanged parts give the same outputs as modules/, variants have
// the intended effect, and each deliberately broken part has the intended defect.
#include "experiments/common/variants.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/container/any.h>

#include "experiments/common/broken.h"
#include "tests/experiments/small_models.h"

namespace folio::experiments {
namespace {

Change norms(bool broken) {
  return [broken](nn::BlockParts& parts, const nn::RopeCache&) {
    if (!broken) return;
    parts.attention_norm = torch::nn::AnyModule(SequenceNorm(kConfig.dim));
    parts.ffn_norm = torch::nn::AnyModule(SequenceNorm(kConfig.dim));
  };
}

// Returns how much the outputs at earlier positions change if the last token is changed: 0 with a causal mask.
double leak(const ModelParts& blocks) { return effect(blocks, 7, 0, 7); }

TEST(Variants, UnchangedBlocksMatchLlama) {
  const torch::Tensor tokens = random_tokens(2, 12);
  EXPECT_EQ(largest_difference(model_of()->forward(tokens), model_of(changed_blocks({}))->forward(tokens)), 0.0);
}

TEST(Variants, VariantsShareInitialValues) {
  nn::Llama a = seeded_llama(kConfig, 3);
  nn::Llama b = seeded_llama(kConfig, 3, changed_blocks(norms(true)));
  nn::Llama other = seeded_llama(kConfig, 4);
  const auto from_a = a->named_parameters();
  for (const auto& p : b->named_parameters()) EXPECT_TRUE(torch::equal(p.value(), from_a[p.key()])) << p.key();
  EXPECT_FALSE(torch::equal(other->parameters()[0], a->parameters()[0]));
}

TEST(Variants, DecodingWithACacheMatchesTheFullPass) {
  nn::Llama model = model_of();
  const torch::Tensor tokens = random_tokens(3, 12);
  EXPECT_LT(largest_difference(decode_with_cache(model, tokens, {}), model->forward(tokens)), 1e-12);
}

TEST(Variants, WithoutRopeOrderIsLost) {
  // Without RoPE, the output at the last position of a single layer doesn't depend on the order of earlier tokens.
  core::ModelConfig config = kConfig;
  config.n_layers = 1;
  const torch::Tensor tokens = torch::tensor({{1, 2, 3, 4}}, torch::kLong);
  const torch::Tensor turned = torch::tensor({{3, 1, 2, 4}}, torch::kLong);
  const auto difference = [&](nn::RopeCache rope) {
    nn::Llama model = with_large_weights(seeded_llama(config, 5, changed_blocks({}, rope)));
    const torch::NoGradGuard no_grad;
    return largest_difference(model->forward(tokens)[0][-1], model->forward(turned)[0][-1]);
  };
  EXPECT_LT(difference(no_rope(config)), 1e-5);
  EXPECT_GT(difference(nn::RopeCache(config.context_length, config.head_dim)), 1e-3);
}

TEST(Variants, ScalingByOneChangesNothing) {
  const nn::RopeCache plain(kConfig.context_length, kConfig.head_dim, kConfig.rope_theta);
  EXPECT_LT((linear_rope(kConfig, 1.0)->rotations() - plain->rotations()).abs().max().item<double>(), 1e-14);
  EXPECT_EQ((ntk_rope(kConfig, 1.0)->rotations() - plain->rotations()).abs().max().item<double>(), 0.0);
}

TEST(Variants, LinearScalingMapsToTrainedPositions) {
  const nn::RopeCache plain(kConfig.context_length, kConfig.head_dim, kConfig.rope_theta);
  const torch::Tensor scaled = linear_rope(kConfig, 4.0)->rotations();
  for (const int64_t p : {0, 1, 2}) {
    EXPECT_LT((scaled[4 * p] - plain->rotations()[p]).abs().max().item<double>(), 1e-14);
  }
}

TEST(Variants, NtkScalingSlowsOnlySlowPairs) {
  core::ModelConfig config = kConfig;
  config.head_dim = 16;  // 8 RoPE pairs
  const nn::RopeCache plain(2, config.head_dim, config.rope_theta);
  const torch::Tensor speed = plain->rotations()[1].angle();
  const torch::Tensor scaled = ntk_rope(config, 8.0)->rotations()[1].angle();
  EXPECT_NEAR((speed[0] / scaled[0]).item<double>(), 1.0, 1e-12);
  EXPECT_NEAR((speed[7] / scaled[7]).item<double>(), 8.0, 1e-9);
}

TEST(BrokenParts, SequenceNormLeaksLaterTokens) {
  EXPECT_GT(leak(changed_blocks(norms(true))), 1e-3);
  EXPECT_EQ(leak(changed_blocks(norms(false))), 0.0);
}

TEST(BrokenParts, SequenceNormBreaksCachedDecoding) {
  nn::Llama model = model_of(changed_blocks(norms(true)));
  const torch::Tensor tokens = random_tokens(3, 12);
  EXPECT_GT(largest_difference(decode_with_cache(model, tokens, norms(true)), model->forward(tokens)), 1e-3);
}

TEST(BrokenParts, NegativeMeanWithoutSquareGivesNaN) {
  MeanNorm norm(4);
  const torch::Tensor y = norm->forward(torch::tensor({{1.0F, 2.0F, 3.0F, 4.0F}, {-1.0F, -2.0F, -3.0F, -4.0F}}));
  EXPECT_TRUE(y[0].isfinite().all().item<bool>());
  EXPECT_TRUE(y[1].isnan().all().item<bool>());
}

TEST(BrokenParts, UnmaskedAttentionLeaksLaterTokens) {
  EXPECT_GT(leak(changed_blocks([](nn::BlockParts& parts, const nn::RopeCache& rope) {
              parts.attention = torch::nn::AnyModule(UnmaskedAttention(kConfig, rope));
            })),
            1e-3);
  const nn::RopeCache rope(kConfig.context_length, kConfig.head_dim);
  UnmaskedAttention attention(kConfig, rope);
  const torch::Tensor x = torch::randn({2, 5, kConfig.dim});
  const torch::Tensor weights = attention->weights(x);
  EXPECT_LT(largest_difference(weights.sum(-1), torch::ones({2, 4, 5})), 1e-6);
  EXPECT_GT(weights.triu(1).abs().max().item<double>(), 0.0);
}

TEST(BrokenParts, DiscardedAttentionGetsNoGradient) {
  nn::Llama model = seeded_llama(kConfig, 5, blocks_that_discard_attention());
  const torch::Tensor tokens = random_tokens(2, 6);
  model->loss(tokens, tokens).backward();
  for (const auto& p : model->named_parameters()) {
    EXPECT_EQ(p.value().grad().defined(), p.key().find("attention") == std::string::npos) << p.key();
  }
}

TEST(Training, SamplingDependsOnlyOnTheSeed) {
  nn::Llama model = seeded_llama(kConfig, 5);
  const auto drawn = sample_tokens(model, {1}, 30, 12, 9);
  EXPECT_EQ(drawn.size(), 31U);
  EXPECT_EQ(drawn, sample_tokens(model, {1}, 30, 12, 9));
  EXPECT_NE(drawn, sample_tokens(model, {1}, 30, 12, 10));
  for (const int32_t token : drawn) EXPECT_TRUE(token >= 0 && token < kConfig.vocab_size);
}

// The frequency of each token id among the samples must be within five standard deviations of its probability.
TEST(Training, SamplesFollowTheProbabilities) {
  nn::Llama model = seeded_llama(kConfig, 5);
  {
    const torch::NoGradGuard no_grad;
    model->parameters()[0].mul_(10.0);
  }
  const torch::Tensor p_V = model->forward(torch::tensor({{1}}, torch::kLong))[0][0].softmax(-1).detach();
  std::vector<int> times(kConfig.vocab_size);
  constexpr int kDraws = 4000;
  for (int seed = 0; seed < kDraws; ++seed) ++times[sample_tokens(model, {1}, 1, 12, seed).back()];
  for (int32_t v = 0; v < kConfig.vocab_size; ++v) {
    const double p = p_V[v].item<double>();
    EXPECT_NEAR(times[v] / static_cast<double>(kDraws), p, 5.0 * std::sqrt(p * (1 - p) / kDraws)) << v;
  }
}

}  // namespace
}  // namespace folio::experiments
