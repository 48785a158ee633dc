// The character classes that pre-tokenizers use, as of Unicode 16.
#pragma once

#include <array>
#include <cstdint>

namespace folio::data {

/// \p{L}, \p{N} and the property White_Space (\s), which are disjoint. Unassigned code points are Other.
enum class CharClass : uint8_t { Other = 0, Letter = 1, Number = 2, Space = 3 };

/// Of a character in a word: \p{Lu} and \p{Lt}; \p{Ll}; \p{Lm}, \p{Lo} and marks, \p{M}, which go with both. Others:
/// None.
enum class LetterCase : uint8_t { None = 0, Upper = 1, Lower = 2, Either = 3 };
[[nodiscard]] LetterCase case_of(uint32_t code_point);

/// Of the first blocks, which have most characters: a binary search for each would dominate the scanner's time.
extern const std::array<CharClass, 0x800> kFirstCharClasses;

[[nodiscard]] CharClass search_char_class(uint32_t code_point);

[[nodiscard]] inline CharClass class_of(uint32_t code_point) {
  return code_point < kFirstCharClasses.size() ? kFirstCharClasses[code_point] : search_char_class(code_point);
}

}  // namespace folio::data
