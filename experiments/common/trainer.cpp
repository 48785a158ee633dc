#include "experiments/common/trainer.h"

#include <fmt/format.h>

#include <cstdlib>

#include "core/error.h"
#include "core/file_io.h"

namespace folio::experiments {
namespace {

namespace fs = std::filesystem;

fs::path trainer() { return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "train"; }

// Returns a path as one word of a shell command.
std::string quoted(const fs::path& path) {
  std::string word = "'";
  for (const char c : path.string()) word += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return word + "'";
}

}  // namespace

bool has_trainer() { return fs::exists(trainer()); }

std::string run_trainer(const Report& report, const fs::path& text, const std::string& name, const std::string& flags) {
  core::require(has_trainer(), "{}: there is no such program; build it, with LibTorch, or take --short",
                trainer().string());
  const fs::path run = report.directory() / name, log = report.directory() / (name + ".log");
  const std::string command =
      fmt::format("{} {} --out {} --force {} --seed {} --threads 1 > {} 2>&1", quoted(trainer()), quoted(text),
                  quoted(run), flags, 1336 + report.seed(), quoted(log));
  core::require(std::system(command.c_str()) == 0, "{}: the training failed; its end says why", log.string());
  return core::read_text_file(log);
}

}  // namespace folio::experiments
