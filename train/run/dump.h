// Batches of a run, with which another implementation can repeat its first steps.
#pragma once

#include <filesystem>

#include "data/batches.h"
#include "train/config/train_config.h"

namespace folio::train {

/// Steps whose batches are written, at most.
inline constexpr int64_t kDumpedSteps = 1000;

/// Writes the batches of config.steps as a NumPy array, int32 [steps, batch_size · accumulation, window + 1]: the
/// inputs are all columns but the last, the targets all but the first. Where a window has several sequences, [steps,
/// batch_size · accumulation, 3, window]: inputs, targets, of which -100 do not count, and Batch::starts. Throws
/// core::Error.
void dump_batches(const std::filesystem::path& path, const data::BatchOf& batches, const TrainConfig& config);

}  // namespace folio::train
