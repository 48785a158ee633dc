// The character classes that pre-tokenizers use, as of Unicode 16.
#pragma once

#include <array>
#include <cstdint>

namespace folio::data {

/// \p{L}, \p{N} and the property White_Space (\s), which are disjoint. Unassigned code points are Other.
enum class CharClass : uint8_t { Other = 0, Letter = 1, Number = 2, Space = 3 };

/// Of the first blocks, which have most characters: a binary search for each would dominate the scanner's time.
extern const std::array<CharClass, 0x800> kFirstCharClasses;

[[nodiscard]] CharClass search_char_class(uint32_t code_point);

[[nodiscard]] inline CharClass class_of(uint32_t code_point) {
  return code_point < kFirstCharClasses.size() ? kFirstCharClasses[code_point] : search_char_class(code_point);
}

}  // namespace folio::data
