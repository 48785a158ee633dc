#include "train/run_directory.h"

#include "core/error.h"
#include "core/paths.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;

void remove_run(const fs::path& run) {
  for (const char* name : {"config.toml", "log.jsonl", "loss.svg", "model.gguf", "checkpoints"}) {
    std::error_code error;
    fs::remove_all(run / name, error);
    core::require(!error, "cannot remove {}: {}", (run / name).string(), error.message());
  }
}

}  // namespace

RunState run_state(const fs::path& run) {
  if (fs::exists(run / "model.gguf")) return RunState::Finished;
  if (fs::exists(run / "checkpoints") || fs::exists(run / "log.jsonl")) return RunState::Unfinished;
  return RunState::Absent;
}

RunChoice choose_run(const std::string& dataset, const std::optional<std::string>& out, bool resume, bool force) {
  fs::path run = out ? fs::path(*out) : core::runs_directory() / dataset;
  for (int n = 2; !out && !force && run_state(run) == RunState::Finished; ++n) {
    run = core::runs_directory() / fmt::format("{}-{}", dataset, n);
  }
  const RunState state = run_state(run);
  const std::string shown = run.string();
  if (resume) {
    core::require(state != RunState::Absent, "there is no unfinished run in {} to resume; leave --resume out", shown);
    core::require(state != RunState::Finished, "the run in {} is finished; there is nothing to resume", shown);
    core::require(fs::exists(run / "checkpoints" / "last"),
                  "the run in {} has no checkpoint yet; start it anew with --force", shown);
    return {.path = run, .resume = true};
  }
  if (force) {
    remove_run(run);
  } else {
    core::require(state != RunState::Unfinished,
                  "an unfinished run stands in {}: go on with --resume, or start anew with --force", shown);
    core::require(state != RunState::Finished, "a finished run stands in {}: take another --out, or --force", shown);
  }
  return {.path = run, .resume = false};
}

}  // namespace folio::train
