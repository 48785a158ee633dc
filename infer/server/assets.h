// What the server sends as it is: files of this folder, in the program.
#pragma once

#include <string_view>

namespace folio::infer::server {

[[nodiscard]] std::string_view page();     ///< page.html
[[nodiscard]] std::string_view openapi();  ///< openapi.json

}  // namespace folio::infer::server
