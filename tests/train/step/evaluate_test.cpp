#include "train/step/evaluate.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>

#include "tests/train/support.h"

namespace folio::train {
namespace {

using test::Small;

// Returns the mean of -log p over the split's windows, computed one window at a time in double.
double naive_loss(nn::Llama& model, data::TokenView split, int64_t window) {
  const torch::NoGradGuard no_grad;
  model->eval();
  double sum = 0.0;
  int64_t n = 0;
  for (size_t start = 0; start + static_cast<size_t>(window) < split.size(); start += static_cast<size_t>(window)) {
    const auto part = split.subspan(start, static_cast<size_t>(window)).to_vector();
    const auto tokens = torch::tensor(std::vector<int64_t>(part.begin(), part.end())).unsqueeze(0);
    const auto logits = model->forward(tokens).squeeze(0).to(torch::kDouble);
    for (int64_t t = 0; t < window; ++t, ++n) {
      double total = 0.0;
      for (int64_t v = 0; v < logits.size(1); ++v) total += std::exp(logits[t][v].item<double>());
      sum += std::log(total) - logits[t][split[start + static_cast<size_t>(t) + 1]].item<double>();
    }
  }
  model->train();
  return sum / static_cast<double>(n);
}

TEST(Evaluate, SplitLossIsTheMeanOverTokens) {
  Small small(test::small_config(), test::small_text(1400));
  for (int step = 0; step < 5; ++step) small.trainer.step();
  auto& model = small.trainer.model();
  const auto split = small.dataset.splits().validation.first(150);
  for (const int64_t window : {1, 7, 16}) {
    // The tolerance allows for float32 rounding of the means that split_loss() averages, each about 2 nats.
    EXPECT_NEAR(split_loss(model, split, window, torch::kCPU), naive_loss(model, split, window), 2e-6) << window;
  }
  // split_loss() evaluates 256 windows of 16 tokens at once. The split has more windows, and their number is not a
  // multiple of 256.
  const auto longer = small.dataset.splits().train;
  ASSERT_GT(data::consecutive_windows(longer, 16), 256);
  ASSERT_NE(data::consecutive_windows(longer, 16) % 256, 0);
  EXPECT_NEAR(split_loss(model, longer, 16, torch::kCPU), naive_loss(model, longer, 16), 2e-6);
}

TEST(Evaluate, DisablesDropoutDuringEvaluation) {
  Small small;
  const double a = small.trainer.evaluate().validation;
  EXPECT_EQ(small.trainer.evaluate().validation, a);
  EXPECT_TRUE(small.trainer.model()->is_training());
  small.trainer.model()->eval();
  EXPECT_EQ(small.trainer.evaluate().validation, a);
  EXPECT_FALSE(small.trainer.model()->is_training());
}

TEST(Evaluate, DoesNotAffectTraining) {
  const auto losses = [](bool evaluate) {
    Small small;
    std::vector<double> all;
    for (int step = 0; step < 4; ++step) {
      all.push_back(small.trainer.step().loss);
      if (evaluate) static_cast<void>(small.trainer.evaluate());
    }
    return all;
  };
  EXPECT_EQ(losses(false), losses(true));
}

TEST(Evaluate, RandomBatchesMatchTheSampler) {
  TrainConfig c = test::small_config();
  c.eval_batches = 3;
  Small small(c);
  small.trainer.step();
  small.trainer.step();
  const Trainer::Evaluation evaluation = small.trainer.evaluate();
  ASSERT_TRUE(evaluation.train.has_value());
  auto& model = small.trainer.model();
  model->eval();
  const torch::NoGradGuard no_grad;
  const auto mean_of = [&](data::TokenView split, uint64_t seed) {
    const data::BatchSampler sampler(split, c.batch_size, c.window, seed);
    double sum = 0.0;
    for (uint64_t n = 6; n < 9; ++n) {  // the third evaluation (after step 2) has batches 6, 7 and 8
      const TensorBatch batch = to_tensors(sampler.batch(n), torch::kCPU);
      sum += model->loss(batch.inputs_BT, batch.targets_BT).item<double>();
    }
    return sum / 3;
  };
  EXPECT_DOUBLE_EQ(*evaluation.train, mean_of(small.dataset.splits().train, c.seed + 1));
  EXPECT_DOUBLE_EQ(evaluation.validation, mean_of(small.dataset.splits().validation, c.seed + 2));
}

TEST(Evaluate, TensorsContainTheBatch) {
  const data::Batch batch{.rows = 2, .length = 3, .inputs = {1, 2, 3, 4, 5, 6}, .targets = {2, 3, 4, 5, 6, 7}};
  const TensorBatch tensors = to_tensors(batch, torch::kCPU);
  EXPECT_TRUE(torch::equal(tensors.inputs_BT, torch::tensor({{1, 2, 3}, {4, 5, 6}}, torch::kLong)));
  EXPECT_TRUE(torch::equal(tensors.targets_BT, tensors.inputs_BT + 1));
  EXPECT_FALSE(tensors.starts_BT.defined());
  data::Batch packed = batch;
  packed.starts = {0, 0, 2, 0, 1, 1};
  EXPECT_TRUE(
      torch::equal(to_tensors(packed, torch::kCPU).starts_BT, torch::tensor({{0, 0, 2}, {0, 1, 1}}, torch::kLong)));
}

}  // namespace
}  // namespace folio::train
