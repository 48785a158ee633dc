// Named character classes of regular expressions.
#pragma once

#include <optional>
#include <string_view>

#include "infer/forms/syntax.h"

namespace folio::infer::forms {

extern const CharacterRanges kDigits;      ///< \d
extern const CharacterRanges kWords;       ///< \w
extern const CharacterRanges kSpaces;      ///< RE2's \s: ASCII whitespace without the vertical tab
extern const CharacterRanges kEcmaSpaces;  ///< ECMA-262's \s: Unicode spaces, line ends and the byte order mark
extern const CharacterRanges kLineEnds;    ///< ECMA-262's line terminators, which . doesn't match

/// Returns the ASCII characters of the POSIX class [:name:], or nullopt if there is no such class.
[[nodiscard]] std::optional<CharacterRanges> posix_class(std::string_view name);

/// Returns the characters of a Unicode general category ("L", "Lu", "Letter", "Lowercase_Letter") or of "Any", in
/// utf8proc's version of Unicode. Returns nullopt for other names, such as scripts, and for C and Cn, because
/// implementations disagree on unassigned code points.
[[nodiscard]] std::optional<CharacterRanges> unicode_class(std::string_view name);

}  // namespace folio::infer::forms
