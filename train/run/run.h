// The training loop: steps, evaluations, logging, checkpoints, Ctrl-C.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <string>

#include "train/run/trainer.h"

namespace folio::train {

struct RunOptions {
  std::filesystem::path run;
  double baseline = 0.0;  ///< reference loss drawn in loss.svg; 0: none
  std::string baseline_name = "5-gram by counting";
  double peak = 0.0;                       ///< matrix peak of all ranks in FLOP/s, to log utilization; 0: don't log it
  std::function<double()> measure_peak{};  ///< measures `peak` again; not called if `peak` is 0
  std::function<bool()> interrupted;       ///< polled after each step; true ends the run
  /// For several ranks (RollCall), otherwise may be empty: note() is called before and after each step; explain()
  /// returns the message to show for an error.
  std::function<void(int64_t step, bool in_step)> note{};
  std::function<std::string(const std::exception&)> explain{};
};

/// Trains to the last step or until the configured patience is exhausted; logs, evaluates and saves at the configured
/// intervals. Saves step 0 first, so that a run always has a checkpoint. Returns false if interrupted, after saving the
/// last completed step. With several ranks, rank 0 writes the files, and all ranks stop if one is interrupted. Throws
/// core::Error that names the last good checkpoint.
bool run_to_end(Trainer& trainer, const RunOptions& options);

/// Calls `body`, and converts its exceptions to a one-line core::Error that names the run's last good checkpoint.
/// std::bad_alloc passes through.
void naming_checkpoint(const std::filesystem::path& run, const std::function<void()>& body);

}  // namespace folio::train
