#include "train/step/evaluate.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include "tests/train/support.h"

namespace folio::train {
namespace {

using test::Small;

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

}  // namespace
}  // namespace folio::train
