// What the server sends as it is: a file of this folder, in the program.
#pragma once

#include <string_view>

namespace folio::infer::server {

[[nodiscard]] std::string_view page();  ///< page.html

}  // namespace folio::infer::server
