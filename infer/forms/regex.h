// Regular expressions: RE2's syntax (github.com/google/re2/wiki/Syntax) without flags, scripts of Unicode and \b. What
// is not supported is refused by name, with the character where it stands.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/work_budget.h"
#include "infer/forms/syntax.h"

namespace folio::infer::forms {

/// Whether an expression is the whole text, or, as a JSON schema's pattern, found somewhere in it.
enum class RegexMatch : uint8_t { Whole, Search };

/// What both write, and where they differ what one means. Ecma is ECMA-262 with its flag u, which JSON schemas ask for:
/// its . and \s are others, and what it lacks of RE2 (\A, \z, \a, [:alpha:]) is refused.
enum class RegexDialect : uint8_t { Re2, Ecma };

/// The texts that match, as a tree without ^ and $. Characters, and ranges of characters in classes, are steps of the
/// budget. Throws core::Error that begins with "character N: ", from 1.
[[nodiscard]] Syntax parse_regex(std::string_view expression, RegexMatch match = RegexMatch::Whole,
                                 RegexDialect dialect = RegexDialect::Re2,
                                 const core::WorkBudget& budget = core::WorkBudget());

}  // namespace folio::infer::forms
