// Functions that the `train` program calls before the first training step (resume, summary) and after the last one
// (results, sample).
#pragma once

#include <optional>

#include "apps/train_data.h"
#include "train/report/memory_use.h"
#include "train/run/run.h"

namespace folio::apps {

/// Prints the time of a training step by operation and, with several ranks, the bytes that each rank stores and sends.
/// `memory` must have been created before `trainer`.
void print_profile(train::Trainer& trainer, std::optional<train::MemoryUse>& memory);

/// Creates the run directory or loads its checkpoint (--resume), measures a baseline loss, and prints a summary.
/// Returns the options for train::run_to_end().
[[nodiscard]] train::RunOptions begin_run(TrainOptions& options, train::Trainer& trainer, const TrainData& data);

/// Writes the run's config.toml. Must be called again after training, since --minutes sets the number of steps.
void write_config(const TrainOptions& options, const train::Trainer& trainer);

/// Prints the result, writes summary.txt and, unless adapters were trained, model.gguf, and prints a sample. `seconds`
/// is the duration of the training.
void end_run(const train::RunOptions& run, double seconds, const train::Trainer& trainer, const TrainData& data);

}  // namespace folio::apps
