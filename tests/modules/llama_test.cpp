// Tests modules/llama.h: initial weights, loss, causality, gradients and errors of the model.
#include "modules/llama.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "modules/attention.h"
#include "tests/modules/gradient_check.h"
#include "tests/modules/support.h"

namespace folio::test {
namespace {

const core::ModelConfig kTiny{
    .vocab_size = 7, .dim = 8, .n_layers = 2, .n_heads = 2, .n_kv_heads = 1, .hidden_dim = 6, .context_length = 12};

torch::Tensor random_tokens(const core::ModelConfig& config, int64_t B, int64_t T) {
  return torch::randint(config.vocab_size, {B, T}, torch::kLong);
}

TEST(Llama, InitialWeightsHaveTheExpectedDeviation) {
  const core::ModelConfig config{.vocab_size = 100, .dim = 128, .n_layers = 3, .tie_embeddings = false};
  nn::Llama model(config);
  for (const auto& parameter : model->named_parameters()) {
    const std::string& name = parameter.key();
    if (parameter->dim() == 1) {
      EXPECT_TRUE(torch::equal(*parameter, torch::ones_like(*parameter))) << name;
      continue;
    }
    const bool residual = name.find(".wo.") != std::string::npos || name.find(".w2.") != std::string::npos;
    const double std = residual ? 0.02 / std::sqrt(6.0) : 0.02;
    // The bound is six standard errors: σ / √n for the mean of n draws, σ / √(2n) for their standard deviation.
    const double error = 6 * std / std::sqrt(static_cast<double>(parameter->numel()));
    EXPECT_NEAR(parameter->std().item<double>(), std, error / std::sqrt(2.0)) << name;
    EXPECT_NEAR(parameter->mean().item<double>(), 0.0, error) << name;
  }
}

TEST(Llama, IgnoredTargetsDoNotCount) {
  nn::Llama model(kTiny);
  model->to(torch::kDouble);
  const auto tokens = random_tokens(kTiny, 2, 4);
  auto targets = random_tokens(kTiny, 2, 4);
  targets[0][1] = nn::Parts::kIgnored;
  targets[1] = nn::Parts::kIgnored;
  const auto rows =
      torch::cross_entropy_loss(model->forward(tokens).flatten(0, 1), targets.flatten(), {}, at::Reduction::Sum);
  EXPECT_NEAR(model->loss(tokens, targets).item<double>(), rows.item<double>() / 3, 64 * kEps);
}

TEST(Llama, LaterTokensDoNotChangeEarlierLogits) {
  for (const bool written_out : {true, false}) {
    auto model = in_double(nn::Llama(kTiny, std::make_shared<nn::Parts>(nn::PartOptions{.written_out = written_out})));
    const auto tokens = random_tokens(kTiny, 2, 12), logits = model->forward(tokens);
    for (int64_t t = 0; t < 12; ++t) {
      auto changed = tokens.clone();
      changed.select(1, t) = (changed.select(1, t) + 1) % kTiny.vocab_size;
      const auto others = model->forward(changed);
      EXPECT_TRUE(torch::equal(others.slice(1, 0, t), logits.slice(1, 0, t)));
      EXPECT_FALSE(torch::equal(others.select(1, 11), logits.select(1, 11)));
    }
  }
}

TEST(Llama, AllLayersShareOneRopeCache) {
  nn::Llama model(kTiny);
  std::vector<const torch::nn::Module*> caches;
  for (const auto& module : model->modules()) {
    if (auto* attention = module->as<nn::Attention>()) {
      caches.push_back(attention->named_children()["rope"].get());
    }
  }
  ASSERT_EQ(caches.size(), 2U);
  EXPECT_EQ(caches[0], caches[1]);
}

TEST(Llama, RejectsMissingParts) {
  core::ModelConfig windowed = kTiny, capped = kTiny;
  windowed.family = core::Family::Mistral;
  EXPECT_NO_THROW(nn::Llama{windowed});
  windowed.sliding_window = 4;
  capped.logit_cap = 30.0F;
  for (const core::ModelConfig& config : {windowed, capped})
    expect_error([&] { nn::Llama{config}; }, {"not a plain Llama"});
}

TEST(Llama, DropoutAppliesOnlyInTraining) {
  nn::Llama model(kTiny, std::make_shared<nn::Parts>(nn::PartOptions{.dropout = 0.3}));
  const auto tokens = random_tokens(kTiny, 2, 5);
  EXPECT_FALSE(torch::equal(model->forward(tokens), model->forward(tokens)));
  model->eval();
  EXPECT_TRUE(torch::equal(model->forward(tokens), model->forward(tokens)));
}

TEST(Llama, GradientsEqualCentralDifferences) {
  for (const bool tied : {true, false}) {
    const core::ModelConfig config{.vocab_size = 5,
                                   .dim = 4,
                                   .n_layers = 2,
                                   .n_heads = 2,
                                   .n_kv_heads = 1,
                                   .hidden_dim = 3,
                                   .context_length = 4,
                                   .tie_embeddings = tied};
    auto model = in_double(nn::Llama(config));
    const auto tokens = random_tokens(config, 2, 4), targets = random_tokens(config, 2, 4);
    expect_gradients([&] { return model->loss(tokens, targets); }, model->parameters());
  }
}

TEST(Llama, RejectsOtherSizesAndTypes) {
  nn::Llama model(kTiny);
  const auto tokens = random_tokens(kTiny, 2, 5);
  expect_error([&] { model->forward(tokens.to(torch::kInt)); }, {"Llama", "Long [B, T]", "Int [2, 5]"});
  expect_error([&] { model->forward(tokens[0]); }, {"Long [B, T]", "Long [5]"});
  expect_error([&] { model->forward(tokens.slice(1, 0, 0)); }, {"Long [B, T]", "Long [2, 0]"});
  expect_error([&] { model->forward(random_tokens(kTiny, 1, 13)); }, {"context_length 12", "Long [1, 13]"});
  expect_error([&] { model->loss(tokens, tokens.slice(1, 1)); }, {"Long [2, 5]", "Long [2, 4]"});
  expect_error([&] { model->loss(tokens, tokens.to(torch::kFloat)); }, {"Long [2, 5]", "Float [2, 5]"});
  expect_error([] { nn::Parts({.dropout = 1.5}); }, {"dropout", "[0, 1)", "1.5"});
  auto config = kTiny;
  config.n_kv_heads = 3;
  expect_error([&] { nn::Llama{config}; }, {"Llama", "n_heads 2", "n_kv_heads 3"});
}

}  // namespace
}  // namespace folio::test
