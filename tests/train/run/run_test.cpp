// Tests train/run/run.h: at which steps a run logs, evaluates, samples and saves, --minutes, errors, and the log file.
#include "train/run/run.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <chrono>
#include <thread>

#include "tests/train/support.h"
#include "train/report/matrix_peak.h"
#include "train/report/run_log.h"
#include "train/step/schedule.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using test::Small;
using test::small_config;
using test::TempDir;

bool run(Small& small, const fs::path& directory, std::function<bool()> interrupted = {}) {
  return run_to_end(small.trainer, {.run = directory, .baseline = 1.0, .interrupted = std::move(interrupted)});
}

TEST(Run, LogsAtIntervalsAndTheEnd) {
  TrainConfig c = small_config();
  c.log_every = 4;
  c.eval_every = 5;
  c.steps = 11;
  const TempDir directory;
  Small small(c);
  ASSERT_TRUE(run(small, directory.path()));
  std::vector<int64_t> steps;
  std::vector<int64_t> evaluated;
  for (const LogEntry& entry : read_log(directory / "log.jsonl")) {
    steps.push_back(entry.step);
    if (entry.val_loss) evaluated.push_back(entry.step);
    EXPECT_EQ(entry.tokens, entry.step * 4 * 16 * 2);
    EXPECT_EQ(entry.lr, learning_rate(c, entry.step - 1));
    EXPECT_GT(entry.grad_norm, 0.0);
    EXPECT_GT(entry.tokens_per_s, 0.0);
    EXPECT_FALSE(entry.peak_share.has_value());  // only measured on request
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{4, 5, 8, 10, 11}));
  EXPECT_EQ(evaluated, (std::vector<int64_t>{5, 10, 11}));
  EXPECT_TRUE(test::contains(test::read_bytes(directory / "loss.svg"), "5-gram"));
}

// Returns the rates of a run's log entries in FLOP/s.
std::vector<double> rates_of(const TrainConfig& c, const std::vector<LogEntry>& entries) {
  std::vector<double> rates;
  for (const LogEntry& entry : entries) rates.push_back(entry.tokens_per_s * operations_per_token(c.model, c.window));
  return rates;
}

TEST(Run, MeasuresAPeakThatWasExceededAgain) {
  for (const double second : {1e18, 1.0}) {  // newly measured peak in FLOP/s: above or below the rate of every step
    TrainConfig c = small_config();
    c.log_every = 1;
    const TempDir directory;
    Small small(c);
    int measured = 0;
    const auto measure_peak = [&] { return ++measured, second; };
    ASSERT_TRUE(run_to_end(
        small.trainer,
        {.run = directory.path(), .baseline = 1.0, .peak = 1.0, .measure_peak = measure_peak, .interrupted = {}}));
    const auto entries = read_log(directory / "log.jsonl");
    const auto rates = rates_of(small.trainer.config(), entries);
    ASSERT_GE(rates.size(), 2U);
    double peak = 1.0;
    int expected = 0;
    for (size_t i = 0; i < rates.size(); ++i) {
      if (rates[i] > peak) peak = std::max(rates[i], second), ++expected;
      EXPECT_NEAR(entries[i].peak_share.value(), rates[i] / peak, 1e-12);
      EXPECT_LE(entries[i].peak_share.value(), 1.0);
    }
    EXPECT_EQ(measured, expected);
    EXPECT_GE(measured, 1);
  }
}

TEST(Run, SamplesAtEachEvaluationWithoutSideEffects) {
  TrainConfig c = small_config();
  std::vector<std::vector<torch::Tensor>> weights;
  for (const int64_t sample : {0, 40}) {  // no sample, and one longer than the context
    c.sample = sample;
    const TempDir directory;
    Small small(c);
    ASSERT_TRUE(run(small, directory.path()));
    for (const LogEntry& entry : read_log(directory / "log.jsonl")) {
      EXPECT_EQ(entry.sample.has_value(), sample > 0 && entry.val_loss.has_value()) << entry.step;
      EXPECT_EQ(entry.sample.value_or("").size(), entry.sample ? 40U : 0U);  // a token is a character
    }
    EXPECT_TRUE(sample == 0 || read_log(directory / "log.jsonl").back().sample == small.trainer.sample());
    weights.push_back(test::copies(small.trainer.model()));
  }
  EXPECT_TRUE(test::same_bits(weights[0], weights[1]));
}

TEST(Run, SavesACheckpointBeforeTheFirstStep) {
  const TempDir directory;
  Small small;
  const auto look = [&] {
    if (small.trainer.state().step == 1) {
      EXPECT_EQ(read_trainer_state(directory / "checkpoints/last").step, 0);
    }
    return false;
  };
  ASSERT_TRUE(run(small, directory.path(), look));
}

TEST(Run, FailedFirstSaveReportsNoCheckpoint) {
  const TempDir directory;
  test::write_bytes(directory / "checkpoints", "a file in the way");
  Small small;
  EXPECT_ERROR(run(small, directory.path()), "no checkpoint was saved yet");
}

TEST(Run, InterruptionAtTheLastStepEndsTheRun) {
  const TempDir directory;
  Small small;
  EXPECT_TRUE(run(small, directory.path(), [&] { return small.trainer.state().step == 12; }));
}

TEST(Run, FailuresNameTheCheckpoint) {
  const TempDir directory;
  Small small;
  const auto spoil = [&] {
    const torch::NoGradGuard no_grad;
    if (small.trainer.state().step == 6) small.trainer.model()->parameters()[0].fill_(std::nan(""));
    return false;
  };
  test::expect_error([&] { run(small, directory.path(), spoil); }, {"step 7", "step-000005"});
  EXPECT_EQ(read_trainer_state(directory / "checkpoints/last").step, 5);
}

TEST(Run, MinutesIncludeTimeBetweenSteps) {
  const TempDir directory;
  TrainConfig c = small_config();
  c.minutes = 1e-6;
  c.log_every = 1;
  c.schedule = ScheduleKind::Linear;
  Small small(c);
  const TrainConfig before = small.trainer.config();
  const auto busy = [] {  // runs between steps and takes at least 10 ms
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return false;
  };
  ASSERT_TRUE(run(small, directory.path(), busy));
  EXPECT_EQ(small.trainer.state().step, kMeasuredSteps);
  EXPECT_EQ(read_log(directory / "log.jsonl").back().lr, learning_rate(before, kMeasuredSteps - 1));
  EXPECT_GE(small.trainer.state().spent_seconds, 0.01 * (kMeasuredSteps - 1));
}

TEST(RunLog, KeepsEveryBitOfItsValues) {
  const TempDir directory;
  const LogEntry entry{.step = 3,
                       .tokens = 99,
                       .loss = 0.1 + 0.2,
                       .mtp_loss = 0.7 - 0.1,
                       .lr = 1.0 / 3.0,
                       .grad_norm = 1e-17,
                       .tokens_per_s = 12345.678,
                       .peak_share = 0.7,
                       .train_loss = {},
                       .val_loss = 2.0 / 3.0,
                       .expert_load = 1.1,
                       .sample = "two\nlines, \"é\""};
  RunLog(directory.path(), 0).append(entry);
  EXPECT_TRUE(read_log(directory / "log.jsonl") == std::vector{entry});
}

TEST(RunLog, SamplesMayEndWithinACharacter) {
  const TempDir directory;
  LogEntry entry;
  entry.sample = "caf\xC3";
  RunLog(directory.path(), 0).append(entry);
  EXPECT_EQ(read_log(directory / "log.jsonl").at(0).sample, "caf\xEF\xBF\xBD");
}

TEST(RunLog, IgnoresForeignLines) {
  const TempDir directory;
  test::write_bytes(directory / "log.jsonl", "hello\n{\"step\":1}\n[]\n{\"step\":2,\"loss\":1.5}\n{\"step\":3,\"lo");
  const auto entries = read_log(directory / "log.jsonl");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].step, 2);
}

}  // namespace
}  // namespace folio::train
