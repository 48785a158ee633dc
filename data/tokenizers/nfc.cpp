#include "data/tokenizers/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/error.h"
#include "core/utf8.h"

namespace folio::data {
namespace {

// The end of the valid UTF-8 that begins at `at`.
size_t valid_end(std::string_view text, size_t at) {
  while (at < text.size()) {
    const core::Utf8Char c = core::decode_utf8(text, at);
    if (!c.valid) break;
    at += c.length;
  }
  return at;
}

void append_composed(std::string_view valid, std::string& out) {
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()), static_cast<utf8proc_ssize_t>(valid.size()),
                   &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, std::free);
  core::require(size >= 0, "a text of {} bytes was not normalized: {}", valid.size(), utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
}

}  // namespace

std::string to_nfc(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return std::string(text);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = valid_end(text, at);
    if (end > at) append_composed(text.substr(at, end - at), out);
    at = end;
    if (at < text.size()) out.push_back(text[at++]);  // not UTF-8
  }
  return out;
}

}  // namespace folio::data
