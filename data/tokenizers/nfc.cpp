#include "data/tokenizers/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/error.h"
#include "core/utf8.h"

namespace folio::data {
namespace {

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
  const auto class_of = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  const auto is_mark = [&](utf8proc_int32_t c) { return class_of(c) != 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    at = std::find_if(at, characters.end(), is_mark);
    const auto end = std::find_if_not(at, characters.end(), is_mark);
    std::ranges::stable_sort(at, end, {}, class_of);
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
