// The loop of a run: steps, evaluations, the log, checkpoints, Ctrl-C.
#pragma once

#include <filesystem>
#include <functional>

#include "train/trainer.h"

namespace folio::train {

struct RunOptions {
  std::filesystem::path run;
  double baseline = 0.0;              ///< the 5-gram's loss, drawn in loss.svg
  std::function<bool()> interrupted;  ///< asked after each step
};

/// Runs the trainer to its last step: logs, evaluates and saves as its config says, and saves step 0 first, so that a
/// run has a checkpoint at any time. Returns whether it got there; where it was interrupted, a checkpoint of the last
/// step stands in the run. Throws core::Error that names the last good checkpoint.
bool run_to_end(Trainer& trainer, const RunOptions& options);

/// Calls `body`. What it throws, for a full disk say, becomes a core::Error of one line that ends with the run's last
/// good checkpoint.
void naming_checkpoint(const std::filesystem::path& run, const std::function<void()>& body);

}  // namespace folio::train
