// Regular expressions: RE2's syntax (github.com/google/re2/wiki/Syntax) without flags, Unicode classes and \b. What is
// not supported is refused by name, with the character where it stands.
#pragma once

#include <cstdint>
#include <string_view>

#include "infer/forms/syntax.h"

namespace folio::infer::forms {

/// Whether an expression is the whole text, or, as a JSON schema's pattern, found somewhere in it.
enum class RegexMatch : uint8_t { Whole, Search };

/// The texts that match, as a tree without ^ and $. Throws core::Error that begins with "character N: ", from 1.
[[nodiscard]] Syntax parse_regex(std::string_view expression, RegexMatch match = RegexMatch::Whole);

}  // namespace folio::infer::forms
