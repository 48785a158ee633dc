// The loop of a run: steps, evaluations, the log, checkpoints, Ctrl-C, --minutes.
#pragma once

#include <filesystem>
#include <functional>

#include "train/trainer.h"

namespace folio::train {

struct RunOptions {
  std::filesystem::path run;
  double minutes = 0.0;               ///< turned into a number of steps once the speed is known; 0: off
  double baseline = 0.0;              ///< the 5-gram's loss, drawn in loss.svg
  std::function<bool()> interrupted;  ///< asked after each step
};

/// With `minutes`, the speed is measured over so many steps; the learning rate may only rise until then.
inline constexpr int64_t kMeasuredSteps = 20;

/// Runs the trainer to its last step: logs, evaluates and saves as its config says. Returns whether it got there;
/// where it was interrupted, a checkpoint of the last step stands in the run. Throws core::Error.
bool run_to_end(Trainer& trainer, const RunOptions& options);

}  // namespace folio::train
