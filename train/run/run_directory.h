// The directory of a run: config.toml, log.jsonl, loss.svg, events.out.tfevents.*, checkpoints/, model.gguf. Only one
// process at a time may train in it; files are only written or removed while holding its lock.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace folio::train {

/// Lock of a run directory, a flock on RUN/.lock. Released when its last copy is destroyed, and by the kernel when the
/// process ends for any reason. A leftover .lock file has no effect.
using RunLock = std::shared_ptr<const int>;

/// Locks an existing directory. Throws core::Error with the id of the process that holds the lock.
[[nodiscard]] RunLock lock_run(const std::filesystem::path& run);

enum class RunState { Absent, Unfinished, Finished };

/// Returns Finished if model.gguf exists, or for adapters, which have none, summary.txt; Unfinished if a checkpoint or
/// a log exists, else Absent. A run killed before its first checkpoint is Absent, but has trained no steps: it saves a
/// checkpoint before its first step.
[[nodiscard]] RunState run_state(const std::filesystem::path& run);

struct RunChoice {
  std::filesystem::path path;
  bool resume = false;
  bool force = false;
  RunLock lock;  ///< acquired by choose_run() if the directory exists, else null
};

/// Returns the directory for a run of `dataset`: `out`, or else, with `force`, runs/DATASET, or else the first of
/// runs/DATASET, runs/DATASET-2, -3, … without a finished run. Does not check the run's state or lock it.
[[nodiscard]] std::filesystem::path run_path(const std::string& dataset, const std::optional<std::string>& out,
                                             bool force);

/// Returns run_path(), locked if it exists. Throws core::Error if another process trains in the directory, if its run
/// is unfinished and neither `resume` nor `force` is set, if `out` is a finished run and `force` is not set, or if
/// `resume` is set and there is nothing to resume.
[[nodiscard]] RunChoice choose_run(const std::string& dataset, const std::optional<std::string>& out, bool resume,
                                   bool force);

/// Creates and locks the chosen directory, removes the old run if `force` is set, and removes temporary files of a
/// killed run. Throws core::Error as choose_run() does, if another process has started a run in the meantime.
void prepare_run(RunChoice& choice);

}  // namespace folio::train
