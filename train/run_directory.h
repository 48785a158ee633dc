// A run directory holds all there is to know of a run: config.toml, log.jsonl, loss.svg, checkpoints/, model.gguf.
// One process at a time trains in it (run_lock.h). Nothing is written or removed there without the lock.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "train/run_lock.h"

namespace folio::train {

enum class RunState { Absent, Unfinished, Finished };

/// Finished: model.gguf is there. Unfinished: a checkpoint or a log is. A run that was killed before its first
/// checkpoint, which it saves before its first step, is Absent: there is nothing to lose.
[[nodiscard]] RunState run_state(const std::filesystem::path& run);

struct RunChoice {
  std::filesystem::path path;
  bool resume = false;
  bool force = false;
  std::optional<RunLock> lock;  ///< held from the choice on if the directory exists
};

/// Where a run of `dataset` goes. Without `out` that is runs/DATASET, or the first of -2, -3, … that holds no finished
/// run. Throws core::Error if another process trains there, if an unfinished run stands there and neither `resume` nor
/// `force` is given, if `out` is a finished run without `force`, or if there is nothing to resume.
[[nodiscard]] RunChoice choose_run(const std::string& dataset, const std::optional<std::string>& out, bool resume,
                                   bool force);

/// Makes the chosen directory where it is missing, locks it, removes what `force` is to remove, and sweeps the
/// temporary files of a killed run. Throws core::Error as choose_run() does, if another process came first.
void prepare_run(RunChoice& choice);

}  // namespace folio::train
