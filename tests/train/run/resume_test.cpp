// Tests that a resumed run equals an uninterrupted one bit for bit, for models and optimizers of several kinds.
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>

#include "data/tokenizers/char_tokenizer.h"
#include "tests/core/model_shapes.h"
#include "tests/train/support.h"
#include "train/report/run_log.h"
#include "train/run/run.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using test::Saved;
using test::Small;
using test::small_config;
using test::small_text;
using test::TempDir;

struct Outcome {
  std::vector<double> losses, norms, validation;
  std::vector<torch::Tensor> weights;
};

Outcome outcome(const fs::path& run, Trainer& trainer) {
  Outcome result;
  for (const LogEntry& entry : read_log(run / "log.jsonl")) {
    result.losses.push_back(entry.loss);
    result.norms.push_back(entry.grad_norm);
    if (entry.val_loss) result.validation.push_back(*entry.val_loss);
  }
  result.weights = test::copies(trainer.model());
  return result;
}

bool run_on(Small& small, const TempDir& run, std::function<bool()> interrupted = {}) {
  return run_to_end(small.trainer, {.run = run.path(), .baseline = 0, .interrupted = std::move(interrupted)});
}

// For each step in `stops`, interrupts a 12-step run after that step, resumes it, and expects results that equal those
// of an uninterrupted run bit for bit.
void expect_repeated_bits(const TrainConfig& config, const std::vector<int>& stops) {
  const TempDir undisturbed;
  Small whole(config);
  ASSERT_TRUE(run_on(whole, undisturbed));
  const Outcome expected = outcome(undisturbed.path(), whole.trainer);
  ASSERT_EQ(expected.losses.size(), 12U);
  ASSERT_EQ(expected.validation.size(), 3U);  // evaluated at steps 5, 10 and 12

  for (const int stop : stops) {
    const TempDir run;
    {
      Small first(config);
      int asked = 0;
      ASSERT_FALSE(run_on(first, run, [&] { return ++asked == stop; }));
    }
    torch::manual_seed(12345);  // a random state as in another process
    static_cast<void>(torch::randn({100}));
    Small second(config);
    second.trainer.resume(run / "checkpoints/last");
    EXPECT_EQ(second.trainer.state().step, stop);
    ASSERT_TRUE(run_on(second, run));
    const Outcome actual = outcome(run.path(), second.trainer);
    EXPECT_EQ(actual.losses, expected.losses) << stop;
    EXPECT_EQ(actual.norms, expected.norms) << stop;
    EXPECT_EQ(actual.validation, expected.validation) << stop;
    EXPECT_TRUE(test::same_bits(actual.weights, expected.weights)) << stop;
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "trainer.json", "tokenizer.json"}) {
      EXPECT_EQ(test::read_bytes(run / "checkpoints/last" / file),
                test::read_bytes(undisturbed / "checkpoints/last" / file))
          << file;
    }
  }
}

TEST(Resume, InterruptedRunIsBitExact) { expect_repeated_bits(small_config(), {4, 11}); }

// Tests multi-token prediction in a fused Llama with recomputation, and in a DeepSeek-V3 with averaged weights.
TEST(Resume, TokensAheadAreBitExact) {
  TrainConfig c = small_config();
  c.model.n_tokens_ahead = 1;
  c.recompute = true;
  expect_repeated_bits(c, {1, 6});
  c.recompute = false;
  core::test::add_experts(c.model, core::Family::DeepseekV3, 4, 20);
  c.model.shared_dim = 20;
  c.model.dense_layers = 1;
  core::test::add_latent(c.model, {.kv_rank = 12, .query_rank = 0, .nope = 4, .rope = 6, .value = 6});
  c.balance = Balance::Bias;
  c.ema = 0.9;
  c.optimizer = OptimizerKind::Muon;
  expect_repeated_bits(c, {6});
}

TEST(Resume, GaLoreIsBitExact) {
  TrainConfig c = small_config();
  c.optimizer = OptimizerKind::GaLore;
  c.rank = 6;
  c.galore_every = 4;
  expect_repeated_bits(c, {4, 6});  // GaLore computes a new subspace after step 4, and uses the saved one after step 6
}

TEST(Resume, PatienceIsRestored) {
  TrainConfig c = small_config();
  c.eval_every = 1;
  c.lr = 0.5;  // so large that the initial loss is the lowest
  c.warmup_steps = 0;
  c.steps = 1000;
  c.patience = 4;
  c.dropout = 0.0;  // off, since the trainers share one random generator
  const TempDir undisturbed, run;
  Small whole(c), first(c), second(c), third(c);
  ASSERT_TRUE(run_on(whole, undisturbed));
  const int64_t end = whole.trainer.state().step;
  ASSERT_LT(end, 1000);
  EXPECT_EQ(end, whole.trainer.state().best_step + 4);
  const auto stop = [&] { return first.trainer.state().step == end - 2; };
  ASSERT_FALSE(run_on(first, run, stop));
  second.trainer.resume(run / "checkpoints/last");
  ASSERT_TRUE(run_on(second, run));
  EXPECT_EQ(outcome(run.path(), second.trainer).validation, outcome(undisturbed.path(), whole.trainer).validation);
  // If a run was killed after its last checkpoint and before it wrote model.gguf, resuming it trains no further steps.
  third.trainer.resume(run / "checkpoints/last");
  ASSERT_TRUE(run_on(third, run));
  EXPECT_EQ(third.trainer.state().step, end);
}

TEST(Resume, TruncatesTheLogToTheCheckpoint) {
  const TempDir run;
  {
    Small first;
    int asked = 0;
    ASSERT_FALSE(run_on(first, run, [&] { return ++asked == 6; }));
  }
  const auto before = read_log(run / "log.jsonl");
  ASSERT_EQ(before.size(), 6U);
  // Simulate that the process was killed in step 8 while it was writing a line of the log.
  const std::string log = test::read_bytes(run / "log.jsonl");
  test::write_bytes(run / "log.jsonl", log + R"({"step":7,"loss":99.0})" + "\n" + R"({"step":8,"lo)");
  TrainConfig c = small_config();
  c.checkpoint_every = 2;  // intervals may change
  Small second(c);
  second.trainer.resume(run / "checkpoints/last");
  EXPECT_EQ(second.trainer.config().checkpoint_every, 2);
  ASSERT_TRUE(run_on(second, run));
  const auto after = read_log(run / "log.jsonl");
  ASSERT_EQ(after.size(), 12U);
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].step, static_cast<int64_t>(i + 1));
    EXPECT_LT(after[i].loss, 10.0);
    EXPECT_EQ(after[i].loss, i < before.size() ? before[i].loss : after[i].loss);
  }
}

// Expects an error that contains `parts` when a trainer with `config` and `text` resumes a checkpoint of a trainer with
// the default configuration and text. Returns the message.
std::string expect_refused(const TrainConfig& config, const std::string& text, const std::vector<std::string>& parts) {
  const Saved first;
  Small other(config, text);
  const std::string message = test::error_of([&] { other.trainer.resume(first.last()); });
  for (const std::string& part : parts) EXPECT_TRUE(test::contains(message, part));
  return message;
}

TEST(Resume, RejectsAnotherText) {
  std::string text = small_text(600);
  std::swap(text[0], text[1]);  // keeps the length and the vocabulary
  expect_refused(small_config(), text, {"a different text", test::digest_of(text), test::digest_of(small_text(600))});
}

TEST(Resume, RejectsAnotherVocabularyShowingTheDifference) {
  std::string text = small_text(600);
  std::replace(text.begin(), text.end(), '?', '!');
  text += "q";
  expect_refused(small_config(), text, {"a different vocabulary", "without \"?\"", "with \"!\" \"q\""});
}

TEST(Resume, MinutesAndMeasurementsAreRestored) {
  const TempDir run;
  TrainConfig c = small_config();
  c.steps = 1000;
  c.minutes = 1.0;
  {
    Small first(c);
    for (int i = 0; i < 10; ++i) {
      first.trainer.step();
      EXPECT_FALSE(first.trainer.measure(i == 0 ? 5.0 : 0.5));
    }
    first.trainer.save(run.path());
  }
  TrainConfig without = c;
  without.minutes = 0.0;
  EXPECT_ERROR((Small(without).trainer.resume(run / "checkpoints/last"), 0), "minutes 1.0 -> 0.0");
  Small second(c);
  second.trainer.resume(run / "checkpoints/last");
  for (int i = 10; i < kMeasuredSteps; ++i) {
    second.trainer.step();
    // The first step of a process is a warm-up, which is not measured.
    EXPECT_EQ(second.trainer.measure(i == 10 ? 5.0 : 0.5).has_value(), i == kMeasuredSteps - 1);
  }
  EXPECT_EQ(second.trainer.config().steps, kMeasuredSteps + 82);  // (60 - 2 * (5 + 9 * 0.5)) s left / 0.5 s a step
}

TEST(Resume, MinutesBecomeStepsOnce) {
  const TempDir run;
  TrainConfig c = small_config();
  c.checkpoint_every = 1000;
  c.eval_every = 1000;
  c.minutes = 60.0;
  int64_t steps = 0;
  {
    Small first(c);
    const auto killed = [&]() -> bool {  // throws after the speed measurement, before a regular checkpoint
      if (first.trainer.state().step > kMeasuredSteps) throw core::Error("killed");
      return false;
    };
    EXPECT_ERROR(run_on(first, run, killed), "killed");
    steps = first.trainer.config().steps;
  }
  const TrainerState saved = read_trainer_state(run / "checkpoints/last");
  EXPECT_EQ(saved.step, kMeasuredSteps);
  EXPECT_EQ(saved.config.steps, steps);
}

TEST(Resume, RejectsAnotherVocabularyInTheCheckpoint) {
  const Saved first;
  auto characters = dynamic_cast<const data::CharTokenizer&>(first.dataset.tokenizer()).characters();
  std::swap(characters[0], characters[1]);
  data::CharTokenizer(characters, "swapped").write_hf(fs::weakly_canonical(first.last()));
  Small second;
  test::expect_error([&] { second.trainer.resume(first.last()); },
                     {"a different vocabulary", "id 0", "\" \" -> \"\\x0A\""});
}

TEST(Resume, NamesADamagedCheckpoint) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "trainer.json"}) {
    const Saved first;
    const auto path = fs::weakly_canonical(first.last()) / file;
    const std::string bytes = test::read_bytes(path);
    test::write_bytes(path, bytes.substr(0, bytes.size() / 2));
    Small second;
    EXPECT_ERROR((second.trainer.resume(first.last()), 0), file);
    fs::remove(path);
    Small third;
    EXPECT_ERROR((third.trainer.resume(first.last()), 0), file);
  }
}

}  // namespace
}  // namespace folio::train
