// The sets of characters that have names in regular expressions.
#pragma once

#include <optional>
#include <string_view>

#include "infer/forms/syntax.h"

namespace folio::infer::forms {

extern const CharacterRanges kDigits;      ///< \d
extern const CharacterRanges kWords;       ///< \w
extern const CharacterRanges kSpaces;      ///< \s of RE2: of ASCII, without the vertical tab
extern const CharacterRanges kEcmaSpaces;  ///< \s of ECMA-262: White_Space and the byte order mark
extern const CharacterRanges kLineEnds;    ///< of ECMA-262: what . is not

/// [:name:], of ASCII.
[[nodiscard]] std::optional<CharacterRanges> posix_class(std::string_view name);

/// The characters of a general category of Unicode, as of the version of utf8proc: "L", "Lu", "Letter",
/// "Lowercase_Letter". None for other names: scripts, and C and Cn, for which unassigned code points count to some
/// programs only.
[[nodiscard]] std::optional<CharacterRanges> unicode_class(std::string_view name);

}  // namespace folio::infer::forms
