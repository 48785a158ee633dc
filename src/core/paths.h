// Where runs/ and data/ are: in $FOLIO_HOME, else in the source tree of the build, else in the working directory.
#pragma once

#include <filesystem>

namespace folio::core {

[[nodiscard]] std::filesystem::path folio_home();
[[nodiscard]] std::filesystem::path runs_directory();
[[nodiscard]] std::filesystem::path data_directory();

/// The model file of the newest run under runs_directory(). Throws Error that says how to make one.
[[nodiscard]] std::filesystem::path newest_model();

}  // namespace folio::core
