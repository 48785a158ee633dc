// The classes of characters that pre-tokenizers ask about, as Unicode 16 has them.
#pragma once

#include <array>
#include <cstdint>

namespace folio::data {

/// \p{L}, \p{N} and the property White_Space (\s) don't overlap. What is not assigned is Other.
enum class CharClass : uint8_t { Other = 0, Letter = 1, Number = 2, Space = 3 };

/// Of the first blocks, which most characters are from: a search for each takes longer than all the rest of a scanner.
extern const std::array<CharClass, 0x800> kFirstCharClasses;

[[nodiscard]] CharClass search_char_class(uint32_t code_point);

[[nodiscard]] inline CharClass class_of(uint32_t code_point) {
  return code_point < kFirstCharClasses.size() ? kFirstCharClasses[code_point] : search_char_class(code_point);
}

}  // namespace folio::data
