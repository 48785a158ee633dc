// The loop of a run: steps, evaluations, the log, checkpoints, Ctrl-C.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <string>

#include "train/run/trainer.h"

namespace folio::train {

struct RunOptions {
  std::filesystem::path run;
  double baseline = 0.0;  ///< a loss to compare with, drawn in loss.svg; 0: none
  std::string baseline_name = "5-gram by counting";
  double operations_per_s = 0.0;      ///< the matrix peak; 0: its share is not logged
  std::function<bool()> interrupted;  ///< asked after each step
  /// Of several ranks: where this one is, before and after each step; and the line that tells of an error.
  std::function<void(int64_t step, bool in_step)> note{};
  std::function<std::string(const std::exception&)> explain{};
};

/// Trains to the last step, or until the patience of the config ends; logs, evaluates and saves as the config says.
/// Saves step 0 first, so that a run always has a checkpoint. Returns false if it was interrupted, after saving a
/// checkpoint of the last completed step. Of several ranks the first one writes the run's files, and all stop if one is
/// interrupted. Throws core::Error that names the last good checkpoint.
bool run_to_end(Trainer& trainer, const RunOptions& options);

/// Calls `body`. If it throws, because the disk is full for example, throws a core::Error of one line that ends with
/// the run's last good checkpoint.
void naming_checkpoint(const std::filesystem::path& run, const std::function<void()>& body);

}  // namespace folio::train
