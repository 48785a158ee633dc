// What train does and says before a run's steps and after them.
#pragma once

#include <optional>

#include "apps/train_data.h"
#include "train/report/memory_use.h"
#include "train/run/run.h"

namespace folio::apps {

/// Where the time of a step goes, and of several ranks what each holds and sends; `memory` has counted since before the
/// trainer was made.
void print_profile(train::Trainer& trainer, std::optional<train::MemoryUse>& memory);

/// Makes the run's directory, continues from its checkpoint with --resume, measures a loss to compare with, and prints
/// all of it. Returns the options of the steps.
[[nodiscard]] train::RunOptions begin_run(TrainOptions& options, train::Trainer& trainer, const TrainData& data);

/// config.toml: with --minutes, again at the end.
void write_config(const TrainOptions& options, const train::Trainer& trainer);

/// Prints the result, writes summary.txt and model.gguf, unless adapters were trained, and prints a sample.
void end_run(const train::RunOptions& run, double seconds, const train::Trainer& trainer, const TrainData& data);

}  // namespace folio::apps
