#include "train/run/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/paths.h"
#include "train/report/event_file.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;

// Removes a run's files. If the process is killed meanwhile, the order of removal leaves a run that --resume can
// complete, one that only --force can restart, or no run.
void remove_run(const fs::path& run) {
  const auto remove = [](const fs::path& path) {
    std::error_code error;
    fs::remove_all(path, error);
    core::require(!error, "cannot remove {}: {}", path.string(), error.message());
  };
  for (const char* name :
       {"model.gguf", "summary.txt", "checkpoints/last", "checkpoints", "log.jsonl", "loss.svg", "config.toml"}) {
    remove(run / name);
  }
  std::error_code unreadable;  // ignored: the removals above report a folder that cannot be accessed
  for (const auto& entry : fs::directory_iterator(run, unreadable)) {
    if (entry.path().filename().string().starts_with(kEventFilePrefix)) remove(entry.path());
  }
}

void check_state(const RunChoice& choice) {
  const RunState state = run_state(choice.path);
  const std::string shown = choice.path.string();
  if (choice.resume) {
    core::require(state != RunState::Absent, "{}: no unfinished run to resume; remove --resume", shown);
    core::require(state != RunState::Finished, "{}: the run is finished, nothing to resume", shown);
    core::require(core::path_exists(choice.path / "checkpoints" / "last"),
                  "{}: the run has no checkpoint to resume from; restart it with --force", shown);
  } else if (!choice.force) {
    core::require(state != RunState::Unfinished,
                  "{}: the run is unfinished; continue it with --resume or restart it with --force", shown);
    core::require(state != RunState::Finished, "{}: the run is finished; use another --out or --force", shown);
  }
}

// Returns true if `path` is still the file that is open as `fd`: the lock's previous holder may have removed it.
bool is_named(int fd, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

}  // namespace

RunLock lock_run(const fs::path& run) {
  const fs::path path = run / ".lock";
  int fd = -1;
  do {
    if (fd >= 0) ::close(fd);
    fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) core::fail("cannot lock the run: cannot write {}: {}", path.string(), std::strerror(errno));
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      ::close(fd);
      int64_t holder = 0;  // process id of the holder; 0 if not yet written
      std::ifstream(path) >> holder;
      core::require(error != EWOULDBLOCK,
                    "{}: the run is being trained by {}; wait for it, stop it or use another --out", run.string(),
                    holder > 0 ? fmt::format("process {}", holder) : "another process");
      core::fail("cannot lock {}: {}; use an --out on a file system that supports locks", path.string(),
                 std::strerror(error));
    }
  } while (!is_named(fd, path));
  // The process id in the lock file is only informative, so ignore errors such as a full disk.
  const std::string number = std::to_string(::getpid());
  if (::ftruncate(fd, 0) == 0) static_cast<void>(!::pwrite(fd, number.data(), number.size(), 0));
  return {new int(fd), [path](const int* held) {
            ::unlink(path.c_str());
            ::close(*held);
            delete held;
          }};
}

RunState run_state(const fs::path& run) {
  if (core::path_exists(run / "model.gguf")) return RunState::Finished;
  const bool adapters = core::path_exists(run / "checkpoints" / "last" / "adapter_config.json");
  if (adapters && core::path_exists(run / "summary.txt")) return RunState::Finished;
  std::error_code error;
  const bool has_link = fs::is_symlink(fs::symlink_status(run / "checkpoints" / "last", error));
  if (has_link || core::path_exists(run / "log.jsonl")) return RunState::Unfinished;
  return RunState::Absent;
}

fs::path run_path(const std::string& dataset, const std::optional<std::string>& out, bool force) {
  fs::path run = out ? fs::path(*out) : core::runs_directory() / dataset;
  for (int n = 2; !out && !force && run_state(run) == RunState::Finished; ++n) {
    run = core::runs_directory() / fmt::format("{}-{}", dataset, n);
  }
  return run;
}

RunChoice choose_run(const std::string& dataset, const std::optional<std::string>& out, bool resume, bool force) {
  const fs::path run = run_path(dataset, out, force);
  RunChoice choice{.path = run, .resume = resume, .force = force, .lock = {}};
  if (core::is_folder(run)) choice.lock = lock_run(run);
  check_state(choice);
  return choice;
}

void prepare_run(RunChoice& choice) {
  core::make_folders(choice.path);
  if (!choice.lock) {
    choice.lock = lock_run(choice.path);
    check_state(choice);  // another process may have started a run since choose_run()
  }
  if (choice.force) remove_run(choice.path);
  for (const char* name : {"config.toml", "log.jsonl", "loss.svg", "model.gguf", "summary.txt"}) {
    core::remove_leftovers(choice.path / name);
  }
}

}  // namespace folio::train
