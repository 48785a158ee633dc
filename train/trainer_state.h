// What a run has to remember beside tensors, and trainer.json, which holds it in a checkpoint.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "train/train_config.h"

namespace folio::train {

/// What decides the bits of a step beside the configuration: another of these may round differently.
struct Environment {
  std::string folio;     ///< its version
  std::string libtorch;  ///< its version
  std::string cpu;       ///< the instruction set that LibTorch chose, as "AVX512"
  int64_t threads = 0;

  bool operator==(const Environment&) const = default;
};

/// Batches are a pure function of (seed, step), as the learning rate is: the step is the place in both.
struct TrainerState {
  TrainConfig config;
  std::string corpus;                 ///< its name
  std::string corpus_path;            ///< what load_corpus() takes to find it again
  int64_t corpus_bytes = 0;           ///< its length
  std::string corpus_digest;          ///< of its bytes: see corpus_digest()
  int64_t step = 0;                   ///< steps that are done
  double best_validation_loss = 0.0;  ///< 0 before the first evaluation
  int64_t best_step = -1;
  double minutes = 0.0;  ///< the run's --minutes, 0 without; after kMeasuredSteps, config.steps is what they gave
  double measured_seconds = 0.0;  ///< with minutes: the time of the steps that were measured
  int64_t measured_steps = 0;     ///< and how many they were
  Environment environment = {};   ///< of the process that saved it
};

/// 64 bits that name a text, as hexadecimal digits (FNV-1a); told apart from another text, not protected from forgery.
[[nodiscard]] std::string corpus_digest(std::string_view text);

/// Writes trainer.json of a checkpoint directory. Throws core::Error.
void write_trainer_state(const std::filesystem::path& checkpoint, const TrainerState& state);

/// The state in a checkpoint's trainer.json. Throws core::Error if it is missing, damaged or of another version.
[[nodiscard]] TrainerState read_trainer_state(const std::filesystem::path& checkpoint);

/// What differs, as "threads 1 -> 2"; empty if nothing does.
[[nodiscard]] std::string describe_difference(const Environment& from, const Environment& to);

}  // namespace folio::train
