#include "train/step/balance.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include "tests/core/model_shapes.h"
#include "tests/train/support.h"

namespace folio::train {
namespace {

TrainConfig experts_config(core::Family family) {
  TrainConfig c = test::small_config();
  core::test::add_experts(c.model, family, 4, 24);
  if (core::info(family).mixture.selection_bias) c.balance = Balance::Bias;
  return c;
}

nn::MixtureImpl::Load load_of(std::vector<int64_t> chosen, std::vector<double> scores, int64_t n_rows) {
  return {.chosen = torch::tensor(chosen),
          .scores = torch::tensor(scores, torch::kDouble).unsqueeze(0).unsqueeze(0),
          .n_rows = n_rows};
}

TEST(Balance, LossCombinesSharesAndScoresOfAllLayers) {
  // Means over the two layers, for each of the four experts: 0.5, 0.5, 1, 0 assignments per row, and router scores of
  // 0.2, 0.3, 0.4, 0.1.
  const Loads loads{load_of({3, 1, 4, 0}, {0.1, 0.3, 0.5, 0.1}, 4), load_of({1, 3, 4, 0}, {0.3, 0.3, 0.3, 0.1}, 4)};
  EXPECT_NEAR(balance_loss(loads).item<double>(), 4 * (0.5 * 0.2 + 0.5 * 0.3 + 1.0 * 0.4), 1e-12);
  EXPECT_NEAR(balance_loss({load_of({2, 2, 2, 2}, {0.25, 0.25, 0.25, 0.25}, 4)}).item<double>(), 2.0, 1e-12);
}

TEST(Balance, LossOfSequencesFollowsThePaper) {
  // Two sequences of two positions, four experts of which two are selected. Scores are divided by their sums, 2 and 1.
  const auto scores = torch::tensor(
      {{{1.0, 0.6, 0.3, 0.1}, {0.1, 0.3, 0.6, 1.0}}, {{0.5, 0.3, 0.1, 0.1}, {0.5, 0.3, 0.1, 0.1}}}, torch::kDouble);
  const Loads loads{{.chosen = torch::zeros({4}, torch::kLong), .scores = scores, .n_rows = 4}};
  const double first = 4 * 0.25 * 1.0;          // each expert is selected once: load f = 1. The mean scores sum to 1
  const double second = 2.0 * 0.5 + 2.0 * 0.3;  // experts 0 and 1 are selected twice: load f = 2
  EXPECT_NEAR(sequence_balance_loss(loads, 2).item<double>(), (first + second) / 2, 1e-12);
  const Loads two{loads[0], loads[0]};  // the loss is a sum over layers
  EXPECT_NEAR(sequence_balance_loss(two, 2).item<double>(), first + second, 1e-12);
}

TEST(Balance, LoadIsTheMaximumOverLayers) {
  const Loads loads{load_of({2, 2, 2, 2}, {}, 4), load_of({4, 1, 1, 2}, {}, 4)};
  EXPECT_DOUBLE_EQ(largest_load(loads), 2.0);
}

TEST(Balance, BiasMovesAgainstTheLoad) {
  nn::Mixture mixture(core::ModelConfig{.family = core::Family::Dots1,
                                        .vocab_size = 5,
                                        .dim = 8,
                                        .n_experts = 4,
                                        .experts_per_token = 2,
                                        .expert_dim = 3,
                                        .normalize_routes = true});
  move_selection_bias(mixture, torch::tensor({9, 5, 5, 1}), 0.25);
  EXPECT_TRUE(torch::equal(mixture->selection_bias(), torch::tensor({-0.25F, 0.0F, 0.0F, 0.25F})));
}

// A step reports the loss without the auxiliary loss, so that it is comparable with the loss of an evaluation.
TEST(Balance, StepLossExcludesTheAuxiliaryLoss) {
  TrainConfig with = experts_config(core::Family::Mixtral);
  with.dropout = 0.0;  // the two models would draw different dropout masks
  TrainConfig without = with;
  with.balance_rate = 1.0;
  without.balance_rate = 0.0;
  test::Small a(with), b(without);
  const StepResult x = a.trainer.step(), y = b.trainer.step();
  EXPECT_EQ(x.loss, y.loss);
  EXPECT_NE(x.grad_norm, y.grad_norm);
}

TEST(Balance, BiasIsNotOptimized) {
  test::Small small(experts_config(core::Family::Dots1));
  small.trainer.step();
  int64_t moved = 0;
  for (const auto& p : small.trainer.model()->named_parameters()) {
    if (p.key().ends_with("selection.bias")) moved += (p.value().abs() > 0).sum().item<int64_t>();
    EXPECT_EQ(p.value().requires_grad(), !p.key().ends_with("selection.bias"));
  }
  EXPECT_GT(moved, 0);
}

}  // namespace
}  // namespace folio::train
