// Tests experiments/common/comparison.h: blocks with one part replaced, parallel runs, and the learning-rate search.
#include "experiments/common/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/error.h"
#include "core/manifest.h"
#include "core/random.h"
#include "experiments/common/broken.h"
#include "experiments/common/variants.h"
#include "tests/experiments/small_models.h"
#include "train/verify/observe.h"

namespace folio::experiments {
namespace {

using Activation = PlainFeedForwardImpl::Activation;

// Returns the largest change of a logit at the last position if the first token is changed.
double reach(const ModelParts& blocks) { return effect(blocks, 0, 7, 1); }

TEST(FeedForward, PlainFeedForwardMatchesTheFormula) {
  const torch::Tensor x = torch::randn({2, 3, 8});
  for (const Activation activation : {Activation::ReLU, Activation::GELU}) {
    PlainFeedForward ffn(8, 20, activation);
    const auto w = ffn->named_parameters();
    const torch::Tensor z = x.matmul(w["w1.weight"].t());
    const torch::Tensor y =
        activation == Activation::ReLU ? z * (z > 0) : z * 0.5 * (1.0 + torch::erf(z / std::sqrt(2.0)));
    EXPECT_LT(largest_difference(ffn->forward(x), y.matmul(w["w2.weight"].t())), 1e-6);
  }
}

TEST(FeedForward, PlainFeedForwardHasSwiGlusParameterCount) {
  int64_t count = 0;
  for (const auto& p : model_of(blocks_with_plain_feed_forward(kConfig, Activation::ReLU))->parameters()) {
    count += p.numel();
  }
  EXPECT_EQ(count, core::parameter_count(kConfig));
  core::ModelConfig odd = kConfig;
  odd.hidden_dim = 25;
  EXPECT_THROW(blocks_with_plain_feed_forward(odd, Activation::ReLU), core::Error);
}

TEST(ComparedBlocks, WidthScaledMatricesPreserveMagnitude) {
  for (const bool whole_blocks : {false, true}) {
    nn::Llama model = seeded_llama(kConfig, 5);
    const nn::Llama before = seeded_llama(kConfig, 5);
    whole_blocks ? draw_blocks_by_width(model) : draw_feed_forwards_by_width(model);
    const auto old = before->named_parameters();
    for (const auto& p : model->named_parameters()) {
      const bool drawn = whole_blocks ? p.key().starts_with("layers.") && p->dim() == 2
                                      : p.key().ends_with("w1.weight") || p.key().ends_with("w3.weight");
      EXPECT_EQ(!drawn, torch::equal(p.value(), old[p.key()])) << p.key();
      if (!drawn) continue;
      const double spread = p->std().item<double>() * std::sqrt(static_cast<double>(p->size(1)));
      // The bound is five standard errors. The relative standard error of the standard deviation of n normal values is
      // 1 / √(2n).
      EXPECT_NEAR(spread, 1.0, 5.0 / std::sqrt(2.0 * static_cast<double>(p->numel()))) << p.key();
    }
  }
}

TEST(ComparedBlocks, PositionsAreIndependentWithoutAttention) {
  EXPECT_EQ(reach(blocks_without_attention()), 0.0);
  EXPECT_GT(reach({}), 1e-3);
}

TEST(ComparedBlocks, RemovedPartsHaveNoParameters) {
  for (const std::string part : {"attention", "ffn"}) {
    nn::Llama model = model_of(part == "ffn" ? blocks_without_feed_forward() : blocks_without_attention());
    for (const auto& p : model->named_parameters()) EXPECT_EQ(p.key().find("." + part), std::string::npos) << p.key();
    int seen = 0;
    train::forward_observed(model, random_tokens(3, 8), [&](const std::string& name, const torch::Tensor& value) {
      if (name.ends_with("." + part)) seen += value.abs().max().item<double>() == 0.0;
    });
    EXPECT_EQ(seen, kConfig.n_layers) << part;
  }
}

TEST(BrokenParts, ZeroBlockZeroesTheStreamWithoutResiduals) {
  const auto spread = [](ModelParts blocks) {
    nn::Llama model = model_of(std::move(blocks));
    const torch::NoGradGuard no_grad;
    for (auto& p : model->named_parameters()) {
      if (p.key() == "layers.0.attention.wo.weight") p->zero_();
    }
    return model->forward(random_tokens(3, 8)).abs().max().item<double>();
  };
  EXPECT_EQ(spread(blocks_without_residuals()), 0.0);
  EXPECT_GT(spread({}), 1e-3);
}

// Returns a text of random characters that is long enough for validation_loss().
Shakespeare random_text() {
  std::string letters = "abcdefghijk";
  Shakespeare text(data::CharTokenizer::from_text(letters, "the test's text"));
  text.vocab_size = 11;
  for (uint64_t i = 0; i < 70'000; ++i) {
    text.tokens.push_back(static_cast<int32_t>(core::random_uniform(1, i) * text.vocab_size));
  }
  text.splits = data::split_tokens(text.tokens, 0.5, 0.0);
  return text;
}

TEST(Comparison, ParallelRunsMatchSingleRuns) {
  const Shakespeare text = random_text();
  train::TrainConfig setting = small_setting(text);
  setting.steps = 4;
  setting.batch_size = 2;
  setting.window = kConfig.context_length;
  core::ModelConfig mqa = kConfig;
  mqa.n_kv_heads = 1;
  const Report report("comparison_test", testing::TempDir() + "/comparison_test", 7);
  const std::vector<uint64_t> seeds{7, 8, 9};
  const auto outcomes = train_variants(
      report, text, setting, {{"Llama", kConfig}, {"MQA by width", mqa, {}, draw_feed_forwards_by_width}}, seeds,
      [](nn::Llama& model) { return model->parameters()[0].sum().item<double>(); });

  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_EQ(outcomes[0].parameters, core::parameter_count(kConfig));
  EXPECT_EQ(outcomes[1].parameters, core::parameter_count(mqa));
  for (size_t i = 0; i < seeds.size(); ++i) {
    setting.seed = seeds[i];
    for (const bool is_mqa : {false, true}) {
      nn::Llama model =
          is_mqa ? seeded_llama(mqa, seeds[i], {}, draw_feed_forwards_by_width) : seeded_llama(kConfig, seeds[i]);
      EXPECT_EQ(outcomes[is_mqa].losses[i], train_model(model, text, setting).validation_loss);
      EXPECT_EQ(outcomes[is_mqa].measured[i], model->parameters()[0].sum().item<double>());
    }
  }
}

TEST(Comparison, EveryJobRunsOnce) {
  std::vector<std::atomic<int>> times(100);
  run_jobs(times.size(), [&](size_t i) { ++times[i]; });
  for (const auto& n : times) EXPECT_EQ(n.load(), 1);
  run_jobs(0, [](size_t) { ADD_FAILURE(); });
}

TEST(Comparison, FailedJobFailsTheStudy) {
  EXPECT_THROW(run_jobs(50, [](size_t i) { core::require(i != 3, "job {} failed", i); }), core::Error);
}

// Returns a simulated loss with its minimum at the learning rate `bottom`, or NaN above `limit`, where training
// diverges.
double valley(double rate, double bottom, double limit) {
  return rate > limit ? NAN : std::pow(std::log10(rate / bottom), 2);
}

TEST(RateSearch, SearchesUntilTheBestRateIsBracketed) {
  const std::vector<double> bottoms{3e-3, 0.1, 1e-4};
  const auto found = search_rates({3e-3, 3e-3, 1e-2}, {1, 2}, [&](size_t which, double rate, uint64_t seed) {
    return valley(rate, bottoms[which], 1.0) + (seed == 1 ? 0.5 : -0.5);  // search_rates() must average over the seeds
  });
  EXPECT_EQ(found[0].rates, (std::vector<double>{1e-3, 3e-3, 1e-2}));
  EXPECT_EQ(found[1].rates, (std::vector<double>{1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3}));
  EXPECT_EQ(found[2].rates, (std::vector<double>{3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2}));
  for (size_t i = 0; i < bottoms.size(); ++i) {
    EXPECT_EQ(found[i].best_rate(), bottoms[i]);
    EXPECT_NEAR(found[i].losses[found[i].best], 0.0, 1e-12);
  }
}

TEST(RateSearch, NeverChoosesADivergingRate) {
  const auto found = search_rates(
      {0.1}, {1, 2}, [](size_t, double rate, uint64_t seed) { return valley(rate, 0.1, seed == 1 ? 1e-2 : 1.0); });
  EXPECT_EQ(found[0].best_rate(), 1e-2);
  EXPECT_EQ(shown(found[0]), "0.003: 2.319, 0.01: 1.000, 0.03: diverged, 0.1: diverged, 0.3: diverged");
}

TEST(RateSearch, ChoosesTheMiddleRateWithoutSeeds) {
  const auto found = search_rates({0.1}, {}, [](size_t, double, uint64_t) -> double {
    ADD_FAILURE();
    return 0.0;
  });
  EXPECT_EQ(found[0].best_rate(), 0.1);
  EXPECT_EQ(shown(found[0]), "0.1: not tried");
}

TEST(RateSearch, TuningAndEvaluationSeedsAreDisjoint) {
  const Report report("comparison_test", testing::TempDir() + "/comparison_test", 7);
  const auto judges = paired_seeds(report);
  for (const uint64_t seed : tuning_seeds(report)) EXPECT_EQ(std::ranges::count(judges, seed), 0);

  const Shakespeare text = random_text();
  train::TrainConfig setting = small_setting(text);
  setting.steps = 2;
  setting.batch_size = 2;
  setting.window = kConfig.context_length;
  std::vector<Variant> variants{{"Llama", kConfig}};
  const auto found = tune_variants(report, text, setting, variants,
                                   [](nn::Llama& model) { return -model->parameters()[0].sum().item<double>(); });
  EXPECT_EQ(variants[0].lr, found[0].best_rate());
  double sum = 0.0;
  for (const uint64_t seed : tuning_seeds(report)) {
    setting.seed = seed;
    nn::Llama model = seeded_llama(kConfig, seed);
    static_cast<void>(train_model(model, text, with_rate(setting, variants[0].lr)));
    sum -= model->parameters()[0].sum().item<double>();
  }
  EXPECT_DOUBLE_EQ(found[0].losses[found[0].best], sum / 2.0);
}

TEST(RateSearch, MinimumRateScalesWithTheRate) {
  train::TrainConfig setting;
  setting.lr = 3e-3;
  setting.min_lr = 3e-4;
  EXPECT_DOUBLE_EQ(with_rate(setting, 0.1).min_lr, 0.01);
}

TEST(Comparison, ReportsTheExpectedNumberOfMisses) {
  EXPECT_EQ(count_of_intervals(12), "12 intervals, of which 0.6 are expected to miss their true value");
}

TEST(Comparison, IntervalsAreShownWithSigns) {
  EXPECT_EQ(shown({.mean = 0.0123, .low = -0.5, .high = 1.0}), "+0.012 [-0.500, +1.000]");
}

}  // namespace
}  // namespace folio::experiments
