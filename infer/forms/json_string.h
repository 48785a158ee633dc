// Grammar parts for JSON strings and object keys.
#pragma once

#include <span>
#include <string>

#include "infer/forms/grammar.h"
#include "infer/forms/syntax.h"

namespace folio::infer::forms {

/// Returns the part for one character of `ranges` in a JSON string, in any spelling: raw, as a short escape, as \uXXXX
/// or as a surrogate pair of \uXXXX. Lone surrogates never match.
[[nodiscard]] Grammar::Part json_characters(Grammar& grammar, std::span<const CharacterRange> ranges);

/// Returns the part for one character of `ranges` in an object key, escaped only as in Python's
/// json.dumps(ensure_ascii=False): see json_quoted() (json_value.h).
[[nodiscard]] Grammar::Part json_key_characters(Grammar& grammar, std::span<const CharacterRange> ranges);

/// Returns the part for quoted keys that are not in `excluded`, escaped only as in Python's
/// json.dumps(ensure_ascii=False): see json_quoted() (json_value.h).
[[nodiscard]] Grammar::Part other_key(Grammar& grammar, std::span<const std::string> excluded);

}  // namespace folio::infer::forms
