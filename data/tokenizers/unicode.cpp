#include "data/tokenizers/unicode.h"

#include <algorithm>

#include "data/tokenizers/unicode_table.h"

namespace folio::data {
namespace {

constexpr CharClass search(uint32_t code_point) {
  const auto after = std::upper_bound(kUnicodeClasses.begin(), kUnicodeClasses.end(), code_point << 2U | 3U);
  return static_cast<CharClass>(*(after - 1) & 3U);
}

constexpr std::array<CharClass, 0x800> search_first() {
  std::array<CharClass, 0x800> classes{};
  for (uint32_t c = 0; c < classes.size(); ++c) classes[c] = search(c);
  return classes;
}

}  // namespace

constinit const std::array<CharClass, 0x800> kFirstCharClasses = search_first();

CharClass search_char_class(uint32_t code_point) { return search(code_point); }

}  // namespace folio::data
