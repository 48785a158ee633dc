#include "data/tokenizers/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/utf8.h"

namespace folio::data {
namespace {

constexpr auto kUpper = UTF8PROC_CATEGORY_LU, kLower = UTF8PROC_CATEGORY_LL, kOther = UTF8PROC_CATEGORY_LO,
               kMark = UTF8PROC_CATEGORY_MN, kDigit = UTF8PROC_CATEGORY_ND;

// Letters, marks and numbers that Unicode 15 to 16 added. An older utf8proc lacks them.
struct Added {
  uint32_t first, last;
  utf8proc_category_t category;
};
// clang-format off
constexpr std::array<Added, 76> kAdded = {{
    {0x897, 0x897, kMark}, {0xCF3, 0xCF3, kMark}, {0xECE, 0xECE, kMark}, {0x1C89, 0x1C89, kUpper},
    {0x1C8A, 0x1C8A, kLower}, {0xA7CB, 0xA7CC, kUpper}, {0xA7CD, 0xA7CD, kLower}, {0xA7DA, 0xA7DA, kUpper},
    {0xA7DB, 0xA7DB, kLower}, {0xA7DC, 0xA7DC, kUpper}, {0x105C0, 0x105F3, kOther}, {0x10D40, 0x10D49, kDigit},
    {0x10D4A, 0x10D4F, kOther}, {0x10D50, 0x10D65, kUpper}, {0x10D69, 0x10D6D, kMark}, {0x10D6F, 0x10D6F, kOther},
    {0x10D70, 0x10D85, kLower}, {0x10EC2, 0x10EC4, kOther}, {0x10EFC, 0x10EFC, kMark}, {0x10EFD, 0x10EFF, kMark},
    {0x1123F, 0x11240, kOther}, {0x11241, 0x11241, kMark}, {0x11380, 0x11389, kOther}, {0x1138B, 0x1138B, kOther},
    {0x1138E, 0x1138E, kOther}, {0x11390, 0x113B5, kOther}, {0x113B7, 0x113B7, kOther}, {0x113B8, 0x113C0, kMark},
    {0x113C2, 0x113C2, kMark}, {0x113C5, 0x113C5, kMark}, {0x113C7, 0x113CA, kMark}, {0x113CC, 0x113D0, kMark},
    {0x113D1, 0x113D1, kOther}, {0x113D2, 0x113D2, kMark}, {0x113D3, 0x113D3, kOther}, {0x113E1, 0x113E2, kMark},
    {0x116D0, 0x116E3, kDigit}, {0x11BC0, 0x11BE0, kOther}, {0x11BF0, 0x11BF9, kDigit}, {0x11F00, 0x11F01, kMark},
    {0x11F02, 0x11F02, kOther}, {0x11F03, 0x11F03, kMark}, {0x11F04, 0x11F10, kOther}, {0x11F12, 0x11F33, kOther},
    {0x11F34, 0x11F3A, kMark}, {0x11F3E, 0x11F42, kMark}, {0x11F50, 0x11F59, kDigit}, {0x11F5A, 0x11F5A, kMark},
    {0x1342F, 0x1342F, kOther}, {0x13440, 0x13440, kMark}, {0x13441, 0x13446, kOther}, {0x13447, 0x13455, kMark},
    {0x13460, 0x143FA, kOther}, {0x16100, 0x1611D, kOther}, {0x1611E, 0x1612F, kMark}, {0x16130, 0x16139, kDigit},
    {0x16D40, 0x16D6C, kOther}, {0x16D70, 0x16D79, kDigit}, {0x18CFF, 0x18CFF, kOther}, {0x1B132, 0x1B132, kOther},
    {0x1B155, 0x1B155, kOther}, {0x1CCF0, 0x1CCF9, kDigit}, {0x1D2C0, 0x1D2D3, kDigit}, {0x1DF25, 0x1DF2A, kLower},
    {0x1E030, 0x1E06D, kOther}, {0x1E08F, 0x1E08F, kMark}, {0x1E4D0, 0x1E4EB, kOther}, {0x1E4EC, 0x1E4EF, kMark},
    {0x1E4F0, 0x1E4F9, kDigit}, {0x1E5D0, 0x1E5ED, kOther}, {0x1E5EE, 0x1E5EF, kMark}, {0x1E5F0, 0x1E5F0, kOther},
    {0x1E5F1, 0x1E5FA, kDigit}, {0x2B739, 0x2B739, kOther}, {0x2EBF0, 0x2EE5D, kOther}, {0x31350, 0x323AF, kOther},
}};
// clang-format on

utf8proc_category_t category_of(uint32_t code_point) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  if (category != UTF8PROC_CATEGORY_CN) return category;
  const auto* const added = std::ranges::lower_bound(kAdded, code_point, {}, &Added::last);
  return added != kAdded.end() && added->first <= code_point ? added->category : category;
}

std::array<CharClass, 0x800> find_first() {
  std::array<CharClass, 0x800> classes{};
  for (uint32_t c = 0; c < classes.size(); ++c) classes[c] = find_char_class(c);
  return classes;
}

size_t valid_end(std::string_view text, size_t at) {
  while (at < text.size()) {
    const core::Utf8Char c = core::decode_utf8(text, at);
    if (!c.valid) break;
    at += c.length;
  }
  return at;
}

constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

void append_decomposed(uint32_t code_point, std::vector<utf8proc_int32_t>& to) {
  std::array<utf8proc_int32_t, 32> parts{};  // more than needed: a canonical decomposition has at most 4 code points
  int boundary = 0;
  const utf8proc_ssize_t n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts.data(),
                                                     parts.size(), kOptions, &boundary);
  core::require(n >= 0 && n <= std::ssize(parts), "U+{:04X} was not normalized: {}", code_point, utf8proc_errmsg(n));
  to.insert(to.end(), parts.begin(), parts.begin() + n);
}

// Sorts each run of combining marks by class (canonical order); marks of the same class keep their order.
// utf8proc_map() does this by swapping neighbors, which takes quadratic time.
void sort_marks(std::vector<utf8proc_int32_t>& characters) {
  const auto combining_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  const auto is_mark = [&](utf8proc_int32_t c) { return combining_class(c) != 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    at = std::find_if(at, characters.end(), is_mark);
    const auto end = std::find_if_not(at, characters.end(), is_mark);
    std::ranges::stable_sort(at, end, {}, combining_class);
    at = end;
  }
}

void append_composed(std::string_view valid, std::string& out) {
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(valid.size());
  for (size_t at = 0; at < valid.size();) {
    const core::Utf8Char c = core::decode_utf8(valid, at);
    append_decomposed(c.code_point, characters);
    at += c.length;
  }
  sort_marks(characters);
  const utf8proc_ssize_t size = utf8proc_normalize_utf32(characters.data(), std::ssize(characters), kOptions);
  core::require(size >= 0, "a text of {} bytes was not normalized: {}", valid.size(), utf8proc_errmsg(size));
  characters.resize(static_cast<size_t>(size));
  for (const utf8proc_int32_t c : characters) core::append_utf8(out, static_cast<uint32_t>(c));
}

}  // namespace

core::Utf8Char last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && text.size() - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
  const core::Utf8Char c = core::decode_utf8(text, at);
  return c.valid && at + c.length == text.size() ? c : core::Utf8Char{};
}

const std::array<CharClass, 0x800> kFirstCharClasses = find_first();

LetterCase case_of(uint32_t code_point) {
  const auto category = category_of(code_point);
  if (category == UTF8PROC_CATEGORY_LL) return LetterCase::Lower;
  if (category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT) return LetterCase::Upper;
  const bool either = category >= UTF8PROC_CATEGORY_LM && category <= UTF8PROC_CATEGORY_ME;
  return either ? LetterCase::Either : LetterCase::None;
}

CharClass find_char_class(uint32_t code_point) {
  const auto category = category_of(code_point);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return CharClass::Letter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return CharClass::Number;
  const bool separates = category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP;
  const bool is_space = separates || (code_point >= '\t' && code_point <= '\r') || code_point == 0x85;
  return is_space ? CharClass::Space : CharClass::Other;
}

std::string to_nfc(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return std::string(text);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = valid_end(text, at);
    if (end > at) append_composed(text.substr(at, end - at), out);
    at = end;
    if (at < text.size()) out.push_back(text[at++]);  // keeps a byte that is not UTF-8
  }
  return out;
}

}  // namespace folio::data
