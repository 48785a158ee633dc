// The directory of a run: config.toml, log.jsonl, loss.svg, events.out.tfevents.*,
// checkpoints/, model.gguf.
// One process at a time trains in it (run_lock.h). Nothing is written or removed without the lock.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "train/run/run_lock.h"

namespace folio::train {

enum class RunState { Absent, Unfinished, Finished };

/// Finished: model.gguf exists. Unfinished: a checkpoint or a log exists. Absent: neither. A run saves a checkpoint
/// before its first step, so one that was killed before that is Absent and loses nothing.
[[nodiscard]] RunState run_state(const std::filesystem::path& run);

struct RunChoice {
  std::filesystem::path path;
  bool resume = false;
  bool force = false;
  std::optional<RunLock> lock;  ///< taken by choose_run() if the directory exists
};

/// Where a run of `dataset` goes, without a look at what stands there: see choose_run().
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
