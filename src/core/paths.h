// Locations of runs/ and data/: in $FOLIO_HOME if set, otherwise in the build's source tree or the working directory.
#pragma once

#include <filesystem>

namespace folio::core {

[[nodiscard]] std::filesystem::path folio_home();
[[nodiscard]] std::filesystem::path runs_directory();
[[nodiscard]] std::filesystem::path data_directory();

/// Returns the model file of the newest run in runs_directory(). If there is none, throws Error that explains how to
/// train one.
[[nodiscard]] std::filesystem::path newest_model();

}  // namespace folio::core
