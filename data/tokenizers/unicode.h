// Unicode 16 character classes for pre-tokenizers.
#pragma once

#include <array>
#include <cstdint>

namespace folio::data {

/// The disjoint classes \p{L}, \p{N} and White_Space (\s). Unassigned code points are Other.
enum class CharClass : uint8_t { Other = 0, Letter = 1, Number = 2, Space = 3 };

/// The case of a character in a word. Upper: \p{Lu} and \p{Lt}; Lower: \p{Ll}; Either: \p{Lm}, \p{Lo} and marks, \p{M};
/// None: all others.
enum class LetterCase : uint8_t { None = 0, Upper = 1, Lower = 2, Either = 3 };
[[nodiscard]] LetterCase case_of(uint32_t code_point);

/// Classes of the first code points, which most text uses: a binary search for each would dominate the scanner's time.
extern const std::array<CharClass, 0x800> kFirstCharClasses;

[[nodiscard]] CharClass search_char_class(uint32_t code_point);

[[nodiscard]] inline CharClass class_of(uint32_t code_point) {
  return code_point < kFirstCharClasses.size() ? kFirstCharClasses[code_point] : search_char_class(code_point);
}

}  // namespace folio::data
