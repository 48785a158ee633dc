// Strings as JSON writes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "infer/forms/grammar.h"
#include "infer/forms/syntax.h"

namespace folio::infer::forms {

/// One character of a string, of these code points, in any way in which JSON writes it: raw, as a short escape, as
/// \uXXXX or a pair of these. No lone surrogates.
[[nodiscard]] Grammar::Part json_characters(Grammar& grammar, std::span<const CharacterRange> ranges);

/// One character of these code points in the one way in which `json_quoted` writes it (json_value.h).
[[nodiscard]] Grammar::Part json_key_characters(Grammar& grammar, std::span<const CharacterRange> ranges);

/// A string, with its quotation marks, that is none of `excluded`. It is written as `json_quoted` writes it
/// (json_value.h).
[[nodiscard]] Grammar::Part other_key(Grammar& grammar, std::span<const std::string> excluded);

}  // namespace folio::infer::forms
