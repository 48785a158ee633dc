// Matches module names with the regular expressions in peft's configurations (rank_pattern, alpha_pattern).
#pragma once

#include <string>
#include <string_view>

namespace folio::core {

/// Returns true if the pattern `key` applies to the module, as in peft: Python's re.match(rf"(.*\.)?({key})$", module).
/// A pattern may contain literals, \d, \w, escaped punctuation, [classes], groups, |, *, +, ?, ^ and $. Throws Error
/// that begins with `where` for any other syntax, or if matching needs too many steps.
[[nodiscard]] bool names_module(std::string_view key, std::string_view module, const std::string& where);

}  // namespace folio::core
