#include "core/paths.h"

#include <cstdlib>
#include <optional>

#include "core/error.h"
#include "core/file_status.h"

namespace folio::core {
namespace fs = std::filesystem;

fs::path folio_home() {
  if (const char* home = std::getenv("FOLIO_HOME"); home != nullptr && *home != '\0') return home;
  std::error_code error;
  if (fs::is_directory(FOLIO_SOURCE_DIR, error)) return FOLIO_SOURCE_DIR;
  return absolute_path(".");
}

fs::path runs_directory() { return folio_home() / "runs"; }
fs::path data_directory() { return folio_home() / "data"; }

fs::path newest_model() {
  std::optional<fs::path> newest;
  fs::file_time_type newest_time;
  std::error_code error;
  for (const auto& run : fs::directory_iterator(runs_directory(), error)) {
    const fs::path model = run.path() / "model.gguf";
    const auto time = fs::last_write_time(model, error);
    if (!error && (!newest || time > newest_time)) {
      newest = model;
      newest_time = time;
    }
  }
  require(newest.has_value(), "no model found in {}: run ./train tinyshakespeare, or pass one with --model FILE",
          runs_directory().string());
  return *newest;
}

}  // namespace folio::core
