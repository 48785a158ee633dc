#include "train/run/trainer.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>
#include <vector>

#include "tests/train/support.h"
#include "train/run/weights.h"
#include "train/step/evaluate.h"

namespace folio::train {
namespace {

using test::Small;
using test::small_config;
using test::small_text;

TEST(Trainer, IsBitExactForTheReportedThreadCounts) {
  const int before = at::get_num_threads();
  const auto run = [](const std::vector<int>& threads) {
    at::set_num_threads(2);
    Small small;
    std::vector<bool> repeats;
    for (const int n : threads) {
      repeats.push_back(small.trainer.repeats_with(n));
      EXPECT_EQ(at::get_num_threads(), 2);
      if (repeats.back()) at::set_num_threads(n);
      small.trainer.step();
      at::set_num_threads(2);
    }
    return std::pair(repeats, test::copies(small.trainer.model()));
  };
  // Dropout is on, to test that repeats_with() restores the state of the random generator.
  const auto same = run({2, 2, 2, 2}), others = run({1, 3, 2, 1});
  EXPECT_EQ(same.first, std::vector<bool>(4, true)) << "the bits of two threads are those of two";
  EXPECT_TRUE(test::same_bits(same.second, others.second));
  at::set_num_threads(before);
}

TEST(Trainer, DoesNotClaimOtherThreadCountsRepeat) {
  TrainConfig c = small_config();
  c.dtype = Precision::Bf16;
  EXPECT_FALSE(Small(c).trainer.repeats_with(1));
  c = small_config();
  c.optimizer = OptimizerKind::GaLore;
  EXPECT_FALSE(Small(c).trainer.repeats_with(1));
}

TEST(Trainer, OtherSeedsGiveOtherLosses) {
  TrainConfig c = small_config();
  Small a(c);
  const double loss = a.trainer.step().loss;
  c.seed = 12;
  Small b(c);
  EXPECT_NE(b.trainer.step().loss, loss);
}

TEST(Trainer, NonFiniteLossStopsBeforeTheUpdate) {
  test::Saved small;
  const auto checkpoint = std::filesystem::weakly_canonical(small.last());
  const auto saved = test::read_bytes(checkpoint / "model.safetensors");
  {
    const torch::NoGradGuard no_grad;
    small.trainer.model()->parameters()[3].view(-1)[0] = std::nan("");
  }
  const auto before = test::copies(small.trainer.model());
  test::expect_error([&] { small.trainer.step(); }, {"the loss is nan at step 2", "--lr"});
  EXPECT_EQ(small.trainer.state().step, 1);
  const auto after = test::copies(small.trainer.model());
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(torch::allclose(before[i], after[i], 0, 0, /*equal_nan=*/true));
  EXPECT_EQ(test::read_bytes(checkpoint / "model.safetensors"), saved);
  EXPECT_EQ(std::filesystem::read_symlink(small.last()), "step-000001");
}

TEST(Trainer, NonFiniteGradientStopsBeforeTheUpdate) {
  TrainConfig c = small_config();
  c.dropout = 0.0;
  c.clip = 0.0;
  Small small(c);
  small.trainer.model()->parameters()[2].register_hook([](const torch::Tensor& g) { return g * INFINITY; });
  const auto before = test::copies(small.trainer.model());
  test::expect_error([&] { small.trainer.step(); }, {"gradient"});
  EXPECT_TRUE(test::same_bits(before, test::copies(small.trainer.model())));
}

TEST(Trainer, InitFromRejectsAnotherShape) {
  for (const int64_t n_ahead : {0, 1}) {  // with 1, the new model lacks the file's MTP module, too
    TrainConfig c = small_config();
    c.model.n_tokens_ahead = n_ahead;
    const test::Saved a(c);
    c.model.n_tokens_ahead = 0;
    c.model.n_layers = 3;
    EXPECT_ERROR(Trainer(c, a.dataset, a.last()),
                 a.last().string() + ": the model does not match the flags: n_layers 2 -> 3; remove them");
  }
}

TEST(Trainer, RejectsWindowsLongerThanTheValidationSplit) {
  TrainConfig c = small_config();
  EXPECT_ERROR(Small(c, small_text(30)), "shorter context");
}

TEST(Trainer, BFloat16LossesAreCloseToFloat32) {
  TrainConfig c = small_config();
  c.dropout = 0.0;
  Small a(c);
  c.dtype = Precision::Bf16;
  Small b(c);
  for (int step = 0; step < 3; ++step) {
    const double x = a.trainer.step().loss;
    const double y = b.trainer.step().loss;
    EXPECT_NEAR(x, y, 0.02) << step;  // BF16 rounds to 8 significant bits
    EXPECT_NE(x, y);
  }
  for (const auto& p : b.trainer.model()->parameters()) EXPECT_EQ(p.scalar_type(), torch::kFloat32);
}

TEST(Trainer, BestLossIsTheSmallest) {
  Small small;
  EXPECT_FALSE(small.trainer.note_validation_loss(INFINITY));
  EXPECT_TRUE(small.trainer.note_validation_loss(2.0));
  EXPECT_FALSE(small.trainer.note_validation_loss(2.0));
  EXPECT_FALSE(small.trainer.note_validation_loss(2.5));
  EXPECT_FALSE(small.trainer.note_validation_loss(std::nan("")));
  EXPECT_TRUE(small.trainer.note_validation_loss(1.5));
  EXPECT_EQ(small.trainer.state().best_validation_loss, 1.5);
}

TEST(Trainer, PatienceCountsEvaluationsWithoutImprovement) {
  TrainConfig c = small_config();
  c.patience = 2;
  Small small(c);
  Small endless;
  const std::vector<double> losses{2.0, 2.0, 1.5, 1.6, std::nan("")};
  for (size_t i = 0; i < losses.size(); ++i) {
    small.trainer.note_validation_loss(losses[i]);
    endless.trainer.note_validation_loss(losses[i]);
    EXPECT_EQ(small.trainer.out_of_patience(), i == 4) << i;
    EXPECT_FALSE(endless.trainer.out_of_patience());
  }
}

TEST(Trainer, WeightAverageMatchesTheFormula) {
  TrainConfig c = small_config();
  c.ema = 0.3;
  Small small(c);
  // Computes the expected average by its formula. The decay in step t is (1 + t) / (10 + t), but at most 0.3.
  const std::vector<double> decays{2.0 / 11.0, 3.0 / 12.0, 0.3, 0.3};
  std::vector<torch::Tensor> expected = test::copies(small.trainer.model());
  for (torch::Tensor& tensor : expected) tensor = tensor.to(torch::kFloat64);
  for (const double decay : decays) {
    small.trainer.step();
    const auto weights = test::copies(small.trainer.model());
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = decay * expected[i] + (1.0 - decay) * weights[i].to(torch::kFloat64);
  }
  const auto average = test::copies(small.trainer.shown().llama());
  double largest = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, (average[i] - expected[i]).abs().max().item<double>());
  }
  EXPECT_LT(largest, 1e-6);  // four steps of three float32 roundings of weights below 2
  EXPECT_FALSE(test::same_bits(average, test::copies(small.trainer.model())));
}

TEST(Trainer, AveragingDoesNotChangeSteps) {
  TrainConfig c = small_config();
  const auto losses = [&] {
    Small small(c);
    std::vector<double> numbers;
    for (int step = 0; step < 3; ++step) numbers.push_back(small.trainer.step().loss);
    return numbers;
  };
  const auto without = losses();
  c.ema = 0.99;
  EXPECT_EQ(losses(), without);
}

TEST(Trainer, EvaluatesAndSavesTheAverage) {
  TrainConfig c = small_config();
  c.ema = 0.99;
  Small small(c);
  for (int step = 0; step < 3; ++step) small.trainer.step();
  const auto loss_of = [&](nn::Llama& model) {
    return split_loss(model, small.dataset.splits().validation, c.window, torch::kCPU);
  };
  EXPECT_EQ(small.trainer.evaluate().validation, loss_of(small.trainer.shown().llama()));
  EXPECT_NE(small.trainer.evaluate().validation, loss_of(small.trainer.model()));
  const test::TempDir run;
  small.trainer.save(run.path());
  nn::Llama saved(small.trainer.config().model);
  load_weights(core::read_hf_model(run / "checkpoints/last"), saved);
  EXPECT_TRUE(test::same_bits(test::copies(saved), test::copies(small.trainer.shown().llama())));
}

TEST(Trainer, AverageStartsFromTheInitialWeights) {
  test::Saved first;
  TrainConfig c = small_config();
  c.ema = 0.99;
  Trainer second(c, first.dataset, first.last());
  EXPECT_TRUE(test::same_bits(test::copies(second.shown().llama()), test::copies(first.trainer.model())));
}

// Trains up to step `last`, and reports `seconds` for each step. Expects that only step `last` completes a measurement.
void measured_steps(Small& small, int64_t last, double seconds) {
  while (small.trainer.state().step < last) {
    small.trainer.step();
    EXPECT_EQ(small.trainer.measure(seconds).has_value(), small.trainer.state().step == last);
  }
}

TEST(Trainer, MinutesBecomeStepsByMeanStepTime) {
  TrainConfig c = small_config();
  c.steps = 7777;
  c.minutes = 1.0;
  Small small(c);
  small.trainer.step();
  EXPECT_FALSE(small.trainer.measure(5.0));  // the first step is a warm-up: it takes time, but isn't measured
  measured_steps(small, kMeasuredSteps, 0.5);
  EXPECT_EQ(small.trainer.config().steps, kMeasuredSteps + 91);  // 60 - 5 - 19 / 2 = 45.5 s are left, at 0.5 s a step
  small.trainer.step();
  EXPECT_FALSE(small.trainer.measure(0.1));
  EXPECT_EQ(small.trainer.config().steps, kMeasuredSteps + 91);
}

TEST(Trainer, StepTimeIsMeasuredAgainAfterDoublings) {
  TrainConfig c = small_config();
  c.minutes = 5.0;
  Small small(c);
  measured_steps(small, kMeasuredSteps, 1.0);
  ASSERT_EQ(small.trainer.config().steps, 300);
  measured_steps(small, 30, 4.0);  // after step 30, 60 of 300 seconds are used
  ASSERT_EQ(small.trainer.config().steps, 30 + 240 / 4);
  measured_steps(small, 60, 2.0);
  EXPECT_EQ(small.trainer.config().steps, 60 + 180 / 2);
}

}  // namespace
}  // namespace folio::train
