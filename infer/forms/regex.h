// Regular expressions in RE2's syntax (github.com/google/re2/wiki/Syntax), without flags, Unicode scripts and \b. An
// unsupported construct is rejected with an error that names it and its position.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/work_budget.h"
#include "infer/forms/syntax.h"

namespace folio::infer::forms {

/// Whole: the expression must match the whole string. Search: a part of it, as for `pattern` in a JSON schema.
enum class RegexMatch : uint8_t { Whole, Search };

/// Ecma is ECMA-262 with the flag u, as JSON Schema specifies: . and \s match other characters than in RE2, and
/// constructs that only RE2 has (\A, \z, \a, [:alpha:]) are rejected.
enum class RegexDialect : uint8_t { Re2, Ecma };

/// Parses an expression into a tree and resolves ^ and $. Each character and range costs one step of `budget`. Throws
/// core::Error; if the error has a position, it begins with "character N: ", counted from 1.
[[nodiscard]] Syntax parse_regex(std::string_view expression, RegexMatch match = RegexMatch::Whole,
                                 RegexDialect dialect = RegexDialect::Re2,
                                 const core::WorkBudget& budget = core::WorkBudget());

}  // namespace folio::infer::forms
