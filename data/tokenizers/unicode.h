// Unicode 16 character classes for pre-tokenizers, and the normalization that some tokenizers apply first.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/utf8.h"

namespace folio::data {

/// The class of a character: \p{L}, \p{N} or White_Space (\s). All others, including unassigned code points, are Other.
enum class CharClass : uint8_t { Other = 0, Letter = 1, Number = 2, Space = 3 };

/// The case of a character, for splitting words: Upper is \p{Lu} or \p{Lt}; Lower is \p{Ll}; Either is \p{Lm}, \p{Lo}
/// or a mark, \p{M}; None is any other character.
enum class LetterCase : uint8_t { None = 0, Upper = 1, Lower = 2, Either = 3 };
[[nodiscard]] LetterCase case_of(uint32_t code_point);

/// Classes of the first 0x800 code points. Most text consists of these, so most lookups read this table.
extern const std::array<CharClass, 0x800> kFirstCharClasses;

[[nodiscard]] CharClass find_char_class(uint32_t code_point);

[[nodiscard]] inline CharClass class_of(uint32_t code_point) {
  return code_point < kFirstCharClasses.size() ? kFirstCharClasses[code_point] : find_char_class(code_point);
}

/// Returns the last character of a text that is not empty. It is invalid if the text ends in a byte that is not UTF-8.
[[nodiscard]] core::Utf8Char last_character(std::string_view text);

/// Returns the text in normalization form C, with characters composed where possible ("e" and U+0301 become "é"):
/// Unicode Standard Annex 15. Bytes that are not UTF-8 are kept.
[[nodiscard]] std::string to_nfc(std::string_view text);

}  // namespace folio::data
