// Tests that growing/the_whole_llama.cpp has the initial weights, batches, losses and clipping of modules/ and train/.
#define main whole_llama_main
#include "experiments/growing/the_whole_llama.cpp"
#undef main

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "data/batches.h"
#include "experiments/common/training.h"
#include "train/run/trainer.h"

namespace folio::experiments {
namespace {

constexpr double kTolerance = 1e-5;  // in nats: about 40 float32 roundings of a loss of 4

// Returns a small configuration that uses every feature: grouped queries, clipping, a warm-up, and a cosine schedule.
whole::Config small() {
  return {.V = 66,  // including <|endoftext|>, as in train/
          .D = 32,
          .L = 2,
          .H = 4,
          .G = 2,
          .F = 48,
          .T = 16,
          .B = 8,
          .steps = 20,
          .rate = 1e-2,
          .last_rate = 1e-3,
          .warmup = 5,
          .clip = 0.8,
          .seed = 7};
}

train::TrainConfig same(const whole::Config& c) {
  train::TrainConfig t;
  t.model = {.vocab_size = c.V,
             .dim = c.D,
             .n_layers = c.L,
             .n_heads = c.H,
             .n_kv_heads = c.G,
             .hidden_dim = c.F,
             .context_length = c.T,
             .rope_theta = static_cast<float>(c.theta),
             .norm_eps = static_cast<float>(c.norm_eps)};
  t.steps = c.steps;
  t.batch_size = c.B;
  t.window = c.T;
  t.seed = c.seed;
  t.lr = c.rate;
  t.min_lr = c.last_rate;
  t.warmup_steps = static_cast<int64_t>(c.warmup);
  t.beta1 = c.beta1;
  t.beta2 = c.beta2;
  t.adam_eps = c.adam_eps;
  t.weight_decay = c.decay;
  t.clip = c.clip;
  return t;
}

struct Losses {
  std::vector<double> whole{}, trainer{}, lengths{};  // per step: both losses, trainer's gradient norm before clipping
};

train::TextDataset dataset_for(const train::TrainConfig& config) {
  const data::TextFiles texts = data::find_texts({"tinyshakespeare"});
  return train::TextDataset(texts, data::summarize(texts.documents), config);
}

const whole::Text& text() {
  static const whole::Text encoded(data::load_corpus("tinyshakespeare").text);
  return encoded;
}

// Trains the one-file Llama and the trainer's model with the settings `c` from equal initial weights. Returns the
// losses of each step.
Losses both(const whole::Config& c) {
  at::set_num_threads(1);
  const train::TrainConfig config = same(c);
  const train::TextDataset dataset = dataset_for(config);
  train::Trainer trainer(config, dataset);
  whole::Llama model(c);
  {
    const torch::NoGradGuard no_grad;
    const auto from = trainer.model()->parameters(), to = model.parameters();
    EXPECT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  }
  Losses losses;
  whole::train(model, text().train, [&](int64_t, double loss) { losses.whole.push_back(loss); });
  for (int64_t step = 0; step < c.steps; ++step) {
    const train::StepResult result = trainer.step();
    losses.trainer.push_back(result.loss);
    losses.lengths.push_back(result.grad_norm);
  }
  return losses;
}

TEST(WholeLlama, InitialValuesMatchTheModules) {
  const whole::Config c = small();
  const whole::Llama model(c);
  nn::Llama modules = seeded_llama(same(c).model, c.seed);
  const auto theirs = modules->parameters(), ours = model.parameters();
  ASSERT_EQ(theirs.size(), ours.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(torch::equal(ours[i], theirs[i])) << i;
}

TEST(WholeLlama, TextAndBatchesMatchTheLibrary) {
  const whole::Config c = small();
  const train::TextDataset dataset = dataset_for(same(c));
  EXPECT_EQ(std::vector<int32_t>(text().train.begin(), text().train.end()), dataset.splits().train.to_vector());
  EXPECT_EQ(text().validation.size(), dataset.splits().validation.size());
  const data::BatchSampler sampler(dataset.splits().train, c.B, c.T, c.seed);
  for (const int64_t step : {0, 1, 19}) {
    const auto theirs = train::to_tensors(sampler.batch(static_cast<uint64_t>(step)), torch::kCPU);
    const whole::Batch ours = whole::random_batch(text().train, c, step);
    EXPECT_TRUE(torch::equal(ours.inputs_BT, theirs.inputs_BT));
    EXPECT_TRUE(torch::equal(ours.targets_BT, theirs.targets_BT));
  }
}

TEST(WholeLlama, TwentyLossesMatchTheTrainer) {
  const Losses losses = both(small());
  ASSERT_EQ(losses.whole.size(), 20U);
  for (size_t i = 0; i < 20; ++i) EXPECT_NEAR(losses.whole[i], losses.trainer[i], kTolerance) << i;
  EXPECT_LT(losses.whole.back(), losses.whole.front() - 0.5);
  const auto clipped =
      std::count_if(losses.lengths.begin(), losses.lengths.end(), [](double length) { return length > small().clip; });
  EXPECT_GT(clipped, 0);
  EXPECT_LT(clipped, 20);
}

// The one-file Llama has the settings of the preset "tiny", but trains for fewer steps, since its loops are slower.
TEST(WholeLlama, SettingsMatchTheTrainersExceptStepsAndSeed) {
  const whole::Config c{.V = 66};
  const train::TrainConfig ours = same(c);
  train::TrainConfig expected = train::preset("tiny");
  expected.model.vocab_size = c.V;
  expected.steps = ours.steps, expected.seed = ours.seed;
  EXPECT_EQ(train::describe_difference(expected, ours), "");
  EXPECT_EQ(expected.model, ours.model);
}

}  // namespace
}  // namespace folio::experiments
