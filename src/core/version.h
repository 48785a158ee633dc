// Folio's version, set in CMakeLists.txt.
#pragma once

#include <string_view>

namespace folio::core {

[[nodiscard]] std::string_view version();

}  // namespace folio::core
