// Matches module names with the regular expressions in peft's configurations (rank_pattern, alpha_pattern).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/work_budget.h"

namespace folio::core {

/// Limit of the steps for matching the patterns of one file; they need a second or two.
inline constexpr uint64_t kPatternSteps = 1'000'000'000;

/// Returns true if peft applies `key` to the module, that is, if Python's re.match(rf"(.*\.)?({key})$", module)
/// matches. A key may contain literals, \d, \w, escaped punctuation, [classes], groups, |, *, +, ?, ^ and $. Each part
/// of the key spends a step of `budget` per position of the module's name. Throws Error with a message that begins with
/// `where` for other syntax, or if the budget is exhausted.
[[nodiscard]] bool names_module(std::string_view key, std::string_view module, const std::string& where,
                                const WorkBudget& budget);

}  // namespace folio::core
