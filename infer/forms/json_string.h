// Grammar parts for JSON strings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "infer/forms/grammar.h"
#include "infer/forms/syntax.h"

namespace folio::infer::forms {

/// Matches one character of `ranges` in a JSON string, in any spelling: raw, as a short escape, as \uXXXX or as a
/// surrogate pair of these. Lone surrogates never match.
[[nodiscard]] Grammar::Part json_characters(Grammar& grammar, std::span<const CharacterRange> ranges);

/// Matches one character of `ranges`, spelled as in json_quoted() (json_value.h).
[[nodiscard]] Grammar::Part json_key_characters(Grammar& grammar, std::span<const CharacterRange> ranges);

/// Matches a string, with its quotes, that is not in `excluded`. It must be spelled as in json_quoted() (json_value.h).
[[nodiscard]] Grammar::Part other_key(Grammar& grammar, std::span<const std::string> excluded);

}  // namespace folio::infer::forms
