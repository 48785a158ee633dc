// Compares the optimizers of the study 10_optimizers with those of LibTorch.
#include "experiments/10_optimizers/optimizers.h"

#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "experiments/common/training.h"

namespace folio::experiments {
namespace {

core::ModelConfig small_model() {
  return {
      .vocab_size = 11, .dim = 16, .n_layers = 1, .n_heads = 2, .n_kv_heads = 1, .hidden_dim = 24, .context_length = 8};
}

// Trains two equal models for twenty steps on the same batches, one with the study's optimizer and one with LibTorch's.
// Returns the largest absolute difference between their weights.
template <typename Theirs>
double apart_after_twenty_steps(const OptimizerOptions& options, const Theirs& make_theirs) {
  nn::Llama ours = seeded_llama(small_model(), 1), theirs = seeded_llama(small_model(), 1);
  Optimizer optimizer(ours, options);
  auto other = make_theirs(*theirs);
  torch::manual_seed(2);
  for (int step = 0; step < 20; ++step) {
    const torch::Tensor tokens_BT = torch::randint(11, {4, 9});
    for (nn::Llama& model : {std::ref(ours), std::ref(theirs)}) {
      model->zero_grad();
      model->loss(tokens_BT.slice(1, 0, 8), tokens_BT.slice(1, 1, 9)).backward();
    }
    optimizer.step(0.01);
    other->step();
  }
  double largest = 0.0;
  const auto their_parameters = theirs->named_parameters();
  for (const auto& p : ours->named_parameters()) {
    largest = std::max(largest, (p.value() - their_parameters[p.key()]).abs().max().item<double>());
  }
  return largest;
}

std::vector<torch::optim::OptimizerParamGroup> matrices_and_vectors(nn::LlamaImpl& model, double decay) {
  std::vector<torch::Tensor> matrices, vectors;
  for (const torch::Tensor& p : model.parameters()) (p.dim() == 2 ? matrices : vectors).push_back(p);
  const auto options = [](double weight_decay) {
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions(0.01).betas({0.9, 0.99}).weight_decay(weight_decay));
  };
  return {{matrices, options(decay)}, {vectors, options(0.0)}};
}

std::unique_ptr<torch::optim::AdamW> adamw(nn::LlamaImpl& model) {
  return std::make_unique<torch::optim::AdamW>(matrices_and_vectors(model, 0.1));
}

TEST(Optimizers, AdamWMatchesLibTorch) {
  EXPECT_LT(apart_after_twenty_steps({.rule = Rule::AdamW, .weight_decay = 0.1}, adamw), 1e-5);
}

TEST(Optimizers, AdamMatchesLibTorch) {
  const double apart = apart_after_twenty_steps({.rule = Rule::Adam}, [](nn::LlamaImpl& model) {
    return std::make_unique<torch::optim::Adam>(model.parameters(), torch::optim::AdamOptions(0.01).betas({0.9, 0.99}));
  });
  EXPECT_LT(apart, 1e-5);
}

TEST(Optimizers, SgdMatchesLibTorch) {
  const double apart = apart_after_twenty_steps({.rule = Rule::Sgd, .momentum = 0.9}, [](nn::LlamaImpl& model) {
    return std::make_unique<torch::optim::SGD>(model.parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  });
  EXPECT_LT(apart, 1e-5);
}

TEST(Optimizers, L2RegularizationDiffersFromDecoupledDecay) {
  EXPECT_GT(apart_after_twenty_steps({.rule = Rule::AdamL2, .weight_decay = 0.1}, adamw), 1e-3);
}

TEST(Optimizers, ScaledStepsHaveTheLearningRatesSize) {
  nn::Llama model = seeded_llama(small_model(), 1);
  std::vector<torch::Tensor> before;
  for (const torch::Tensor& p : model->parameters()) before.push_back(p.detach().clone());
  Optimizer optimizer(model, {.rule = Rule::Scaled});
  const torch::Tensor tokens_BT = torch::randint(11, {4, 9});
  model->loss(tokens_BT.slice(1, 0, 8), tokens_BT.slice(1, 1, 9)).backward();
  optimizer.step(0.01);
  const auto after = model->parameters();
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_NEAR((after[i] - before[i]).square().mean().sqrt().item<double>(), 0.01, 1e-4) << i;
  }
}

}  // namespace
}  // namespace folio::experiments
