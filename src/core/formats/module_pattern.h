// The regular expressions by which peft's configurations name modules (rank_pattern, alpha_pattern).
#pragma once

#include <string>
#include <string_view>

namespace folio::core {

/// Whether peft applies `key` to the module: Python's re.match(rf"(.*\.)?({key})$", module). A key may have characters,
/// \d, \w, escaped marks, [classes], groups, |, *, +, ?, ^ and $. Takes a bounded time. Throws Error that begins with
/// `where` for anything else, and for a key that takes too many steps.
[[nodiscard]] bool names_module(std::string_view key, std::string_view module, const std::string& where);

}  // namespace folio::core
