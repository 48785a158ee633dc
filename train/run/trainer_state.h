// The state of a run without its tensors, stored as trainer.json in a checkpoint.
#pragma once

#include <filesystem>
#include <string>

#include "train/step/dataset.h"

namespace folio::train {

/// The software, instruction set and number of threads, which affect the rounding of a step. The configuration also
/// affects it, but is stored separately, in TrainerState.
struct Environment {
  std::string folio;     ///< Folio's version
  std::string libtorch;  ///< LibTorch's version
  std::string cpu;       ///< instruction set that LibTorch uses, such as "AVX512"
  int64_t threads = 0;
};

/// Number of steps in the first speed measurement of --minutes. Later measurements end after about 10, 20, 40 and 80 %
/// of all steps. The learning rate's warm-up lasts at least as long as the first measurement.
inline constexpr int64_t kMeasuredSteps = 20;

/// A run's progress. Batches and learning rate are pure functions of seed and step, so they need no state.
struct TrainerState {
  TrainConfig config{};
  Source source{};
  std::string base{};                 ///< model file of a LoRA run's base model; else empty
  std::string base_digest{};          ///< model_digest() of the base model
  int64_t step = 0;                   ///< completed steps
  double best_validation_loss = 0.0;  ///< 0 before the first evaluation
  int64_t best_step = -1;
  int64_t evaluations_since_best = 0;
  double spent_seconds = 0.0;               ///< with --minutes: total time, including evaluations and checkpoints
  double measured_seconds = 0.0;            ///< time in the current speed measurement
  int64_t measured_steps = 0;               ///< steps in the current speed measurement
  int64_t measures_until = kMeasuredSteps;  ///< step at which the speed measurement ends and sets config.steps
  Environment environment{};                ///< environment of the process that saved the state
};

/// Writes trainer.json to a checkpoint directory. Throws core::Error on failure.
void write_trainer_state(const std::filesystem::path& checkpoint, const TrainerState& state);

/// Reads a checkpoint's trainer.json. Throws core::Error if it is missing, damaged or of another version.
[[nodiscard]] TrainerState read_trainer_state(const std::filesystem::path& checkpoint);

/// Returns the differences, such as "threads 1 -> 2", or "" if there are none.
[[nodiscard]] std::string describe_difference(const Environment& from, const Environment& to);

}  // namespace folio::train
