// A run directory holds all there is to know of a run: config.toml, log.jsonl, loss.svg, checkpoints/, model.gguf.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace folio::train {

enum class RunState { Absent, Unfinished, Finished };

/// Finished: model.gguf is there. Unfinished: a checkpoint or a log is.
[[nodiscard]] RunState run_state(const std::filesystem::path& run);

struct RunChoice {
  std::filesystem::path path;
  bool resume = false;
};

/// Where a run of `dataset` goes. Without `out` that is runs/DATASET, or the first of -2, -3, … that holds no finished
/// run. Throws core::Error if an unfinished run stands there and neither `resume` nor `force` is given, if `out` is a
/// finished run without `force`, or if there is nothing to resume. `force` removes what an earlier run left there.
[[nodiscard]] RunChoice choose_run(const std::string& dataset, const std::optional<std::string>& out, bool resume,
                                   bool force);

}  // namespace folio::train
