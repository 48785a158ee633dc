#include <regex>
#include <set>
#include <string>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "train/run/checkpoint.h"
#include "train/run/trainer_state.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;

std::string step_name(int64_t step) { return fmt::format("step-{:06}", step); }

std::string target_of(const fs::path& link) {
  std::error_code error;
  return fs::read_symlink(link, error).string();
}

void point_link(const fs::path& checkpoints, const std::string& link, const std::string& target) {
  try {
    if (target_of(checkpoints / link) != target) {
      const fs::path temporary = checkpoints / fmt::format(".{}.tmp", link);
      fs::remove(temporary);
      fs::create_directory_symlink(target, temporary);
      // scp -r, for example, copies a link's folder instead of the link.
      if (fs::is_directory(fs::symlink_status(checkpoints / link))) fs::remove_all(checkpoints / link);
      fs::rename(temporary, checkpoints / link);
    }
  } catch (const fs::filesystem_error& error) {
    core::fail("{}", core::describe(error));
  }
  core::sync_directory(checkpoints);
}

// Removes temporary files and the checkpoints not in `kept`. Returns an error message, or "".
std::string remove_others(const fs::path& checkpoints, const std::set<std::string>& kept) {
  const std::regex steps_and_temporaries("step-[0-9]+|\\.(last|best|step-[0-9]+)\\.tmp");
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
    const std::string name = entry.path().filename().string();
    if (!std::regex_match(name, steps_and_temporaries) || kept.contains(name)) continue;
    fs::remove_all(entry.path(), error);
    if (error) return fmt::format("cannot remove {}: {}", entry.path().string(), error.message());
  }
  return error ? fmt::format("cannot read the folder {}: {}", checkpoints.string(), error.message()) : "";
}

// Returns the names of the checkpoints to keep. Does not read them from the links `last` and `best`: if a link could
// not be read, its checkpoint would be deleted.
std::set<std::string> named_steps(int64_t last, int64_t best) { return {step_name(last), step_name(best)}; }

}  // namespace

void commit_checkpoint(const fs::path& run, int64_t step, int64_t best_step,
                       const std::function<void(const fs::path&)>& write) {
  const fs::path checkpoints = run / "checkpoints";
  const std::string name = step_name(step);
  const fs::path temporary = checkpoints / fmt::format(".{}.tmp", name);
  const auto failed = [&](const std::string& what) {
    std::error_code ignored;  // ignored: the save has failed already
    fs::remove_all(temporary, ignored);
    core::fail("cannot save the checkpoint {}: {}", name, what);
  };
  try {
    if (core::make_folders(checkpoints)) core::sync_directory(run);
    const bool is_named = target_of(checkpoints / "last") == name || target_of(checkpoints / "best") == name;
    if (!is_named || !core::path_exists(checkpoints / name)) {
      fs::remove_all(temporary);
      fs::create_directory(temporary);
      write(temporary);
      core::sync_directory(temporary);
      fs::remove_all(checkpoints / name);  // left by a killed save; no link points to it
      fs::rename(temporary, checkpoints / name);
      core::sync_directory(checkpoints);
    }
    point_link(checkpoints, "last", name);
    if (best_step == step) point_link(checkpoints, "best", name);
  } catch (const fs::filesystem_error& error) {
    failed(core::describe(error));
  } catch (const core::Error& error) {
    failed(error.what());
  }
  // Ignore errors: the next save or start tries again to remove leftovers.
  static_cast<void>(remove_others(checkpoints, named_steps(step, best_step)));
}

void recover_checkpoints(const fs::path& run) {
  const fs::path checkpoints = run / "checkpoints";
  if (!core::path_exists(checkpoints)) return;
  std::set<std::string> kept;
  if (core::path_exists(checkpoints / "last")) {
    const TrainerState state = read_trainer_state(checkpoints / "last");
    kept = named_steps(state.step, state.best_step);
    kept.insert(target_of(checkpoints / "last"));
    if (state.best_step >= 0) {
      // A save replaces `last` before `best`. If it was killed in between, `best` still points to the old step.
      core::require(core::path_exists(checkpoints / step_name(state.best_step)),
                    "{}: the best checkpoint, {}, is missing", checkpoints.string(), step_name(state.best_step));
      point_link(checkpoints, "best", step_name(state.best_step));
    } else {
      std::error_code error;
      fs::remove(checkpoints / "best", error);
      core::require(!error, "cannot remove {}: {}", (checkpoints / "best").string(), error.message());
      core::sync_directory(checkpoints);
    }
  }
  const std::string failure = remove_others(checkpoints, kept);
  core::require(failure.empty(), "{}", failure);
}

}  // namespace folio::train
