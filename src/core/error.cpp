#include "core/error.h"

#include "core/utf8.h"

namespace folio::core {

std::string printable(std::string_view text, size_t max_bytes) {
  std::string shown;
  size_t at = 0;
  while (at < text.size() && shown.size() < max_bytes) {
    const Utf8Char c = decode_utf8(text, at);
    const bool control = c.code_point < 0x20 || (c.code_point >= 0x7F && c.code_point < 0xA0);
    if (!c.valid || control) {
      shown += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[at]));
      at += 1;
    } else {
      shown += text.substr(at, c.length);
      at += c.length;
    }
  }
  return at < text.size() ? shown + "…" : shown;
}

}  // namespace folio::core
