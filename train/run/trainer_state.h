// The state of a run apart from its tensors, and trainer.json, which stores it in a checkpoint.
#pragma once

#include <filesystem>
#include <string>

#include "train/step/dataset.h"

namespace folio::train {

/// What affects the rounding of a step beside the configuration.
struct Environment {
  std::string folio;     ///< its version
  std::string libtorch;  ///< its version
  std::string cpu;       ///< the instruction set that LibTorch chose, as "AVX512"
  int64_t threads = 0;
};

/// With minutes, the speed is measured over this many steps first, then until a tenth, a fifth, two and four fifths of
/// all. The warm-up of the learning rate lasts at least as long as the first measurement.
inline constexpr int64_t kMeasuredSteps = 20;

/// Batches and learning rate are pure functions of seed and step, so they need no state of their own.
struct TrainerState {
  TrainConfig config{};
  Source source{};
  std::string base{};         ///< the model file that adapters are trained for; empty: the run has a model of its own
  std::string base_digest{};  ///< of its tensors
  int64_t step = 0;           ///< completed steps
  double best_validation_loss = 0.0;  ///< 0 before the first evaluation
  int64_t best_step = -1;
  int64_t evaluations_since_best = 0;
  double spent_seconds = 0.0;               ///< with minutes: the time of all steps, and of what was done between them
  double measured_seconds = 0.0;            ///< and of those since the last measurement,
  int64_t measured_steps = 0;               ///< and their number
  int64_t measures_until = kMeasuredSteps;  ///< the step after which they set config.steps
  Environment environment{};                ///< of the process that saved the state
};

/// Writes trainer.json of a checkpoint directory. Throws core::Error.
void write_trainer_state(const std::filesystem::path& checkpoint, const TrainerState& state);

/// The state in a checkpoint's trainer.json. Throws core::Error if it is missing, damaged or of another version.
[[nodiscard]] TrainerState read_trainer_state(const std::filesystem::path& checkpoint);

/// What differs, as "threads 1 -> 2"; empty if nothing does.
[[nodiscard]] std::string describe_difference(const Environment& from, const Environment& to);

}  // namespace folio::train
