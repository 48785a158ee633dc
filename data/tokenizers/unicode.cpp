#include "data/tokenizers/unicode.h"

#include <algorithm>

#include "data/tokenizers/unicode_table.h"

namespace folio::data {
namespace {

template <typename Class>
constexpr Class search_in(const auto& table, uint32_t code_point) {
  const auto after = std::upper_bound(table.begin(), table.end(), code_point << 2U | 3U);
  return static_cast<Class>(*(after - 1) & 3U);
}

constexpr CharClass search(uint32_t code_point) { return search_in<CharClass>(kUnicodeClasses, code_point); }

constexpr std::array<CharClass, 0x800> search_first() {
  std::array<CharClass, 0x800> classes{};
  for (uint32_t c = 0; c < classes.size(); ++c) classes[c] = search(c);
  return classes;
}

}  // namespace

constinit const std::array<CharClass, 0x800> kFirstCharClasses = search_first();

LetterCase case_of(uint32_t code_point) {
  if (code_point >= 'a' && code_point <= 'z') return LetterCase::Lower;
  return search_in<LetterCase>(kUnicodeCases, code_point);
}

CharClass search_char_class(uint32_t code_point) { return search(code_point); }

}  // namespace folio::data
