#include "core/utf8.h"

#include <algorithm>

namespace folio::core {

Utf8Char decode_utf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {.code_point = lead, .length = 1, .valid = true};

  size_t length = 0;
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  if (length == 0) return {.code_point = lead};

  uint32_t code_point = lead & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= text.size()) return {.code_point = lead, .truncated = true};
    if ((byte(i) & 0xC0U) != 0x80U) return {.code_point = lead};
    // The second byte reveals overlong forms, surrogates and code points above U+10FFFF.
    if (i == 1 && ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
                   (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F))) {
      return {.code_point = lead};
    }
    code_point = (code_point << 6U) | (byte(i) & 0x3FU);
  }
  return {.code_point = code_point, .length = length, .valid = true};
}

void TextPlace::move_past(std::string_view text) {
  const size_t last = text.rfind('\n');
  line += static_cast<size_t>(std::ranges::count(text, '\n'));
  if (last != std::string_view::npos) column = 1;
  for (const char c : text.substr(last == std::string_view::npos ? 0 : last + 1)) {
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) ++column;
  }
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!c.valid) return false;
    at += c.length;
  }
  return true;
}

void append_utf8(std::string& out, uint32_t c) {
  const uint32_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;  // number of continuation bytes
  const uint32_t lead = more == 0 ? 0 : 0xFF00U >> (more + 1);               // its last byte begins with more + 1 ones
  out.push_back(static_cast<char>(lead | (c >> (6 * more))));
  for (uint32_t i = more; i-- > 0;) out.push_back(static_cast<char>(0x80U | ((c >> (6 * i)) & 0x3FU)));
}

size_t complete_utf8_prefix(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const size_t at = text.size() - back;
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) continue;
    return decode_utf8(text, at).truncated ? at : text.size();
  }
  return text.size();
}

}  // namespace folio::core
