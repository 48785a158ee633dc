// What another implementation needs to repeat the first steps of a run: its batches, and the gradients to compare.
#pragma once

#include <filesystem>

#include "data/batches.h"
#include "train/config/train_config.h"

namespace folio::train {

/// Of more steps no batches are written.
inline constexpr int64_t kDumpedSteps = 1000;

/// Writes the batches of config.steps, or of the first kDumpedSteps, as a NumPy array, int32 [steps, batch_size ·
/// accumulation, window + 1]: the inputs are all columns but the last, the targets all but the first. Of conversations
/// [steps, batch_size · accumulation, 3, window]: inputs, targets, of which -100 do not count, and Batch::starts.
/// Throws core::Error.
void dump_batches(const std::filesystem::path& path, const data::BatchOf& batches, const TrainConfig& config);

}  // namespace folio::train
