// The directory of a run: config.toml, log.jsonl, loss.svg, events.out.tfevents.*, checkpoints/, model.gguf.
// One process at a time trains in it. Nothing is written or removed without its lock.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace folio::train {

/// The lock on a run directory: a flock on RUN/.lock, which is released with the last copy, and by the kernel when the
/// process ends for any reason. A .lock file that is left over locks nothing.
using RunLock = std::shared_ptr<const int>;

/// Locks an existing directory. Throws core::Error that names the process that holds the lock.
[[nodiscard]] RunLock lock_run(const std::filesystem::path& run);

enum class RunState { Absent, Unfinished, Finished };

/// Finished: model.gguf exists. Unfinished: a checkpoint or a log exists. Absent: neither. A run saves a checkpoint
/// before its first step, so one that was killed before that is Absent and loses nothing.
[[nodiscard]] RunState run_state(const std::filesystem::path& run);

struct RunChoice {
  std::filesystem::path path;
  bool resume = false;
  bool force = false;
  RunLock lock;  ///< taken by choose_run() if the directory exists, else null
};

/// The directory for a run of `dataset`, of any state: see choose_run().
[[nodiscard]] std::filesystem::path run_path(const std::string& dataset, const std::optional<std::string>& out,
                                             bool force);

/// The directory for a run of `dataset`: `out`, or runs/DATASET, or the first of runs/DATASET-2, -3, … without a
/// finished run. Throws core::Error if another process trains there, if it has an unfinished run and neither `resume`
/// nor `force` is given, if `out` is a finished run and `force` is not given, or if there is nothing to resume.
[[nodiscard]] RunChoice choose_run(const std::string& dataset, const std::optional<std::string>& out, bool resume,
                                   bool force);

/// Creates the chosen directory if it is missing, locks it, removes the old run with `force`, and removes the temporary
/// files of a killed run. Throws core::Error as choose_run() does, if another process was faster.
void prepare_run(RunChoice& choice);

}  // namespace folio::train
