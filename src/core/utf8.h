// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF (RFC 3629).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace folio::core {

struct Utf8Char {
  uint32_t code_point = 0;
  size_t length = 1;  ///< in bytes; 1 for an invalid byte
  bool valid = false;
  bool truncated = false;  ///< invalid because the text ends within the character
};

/// The character that starts at byte `at`; `at` must be below text.size().
[[nodiscard]] Utf8Char decode_utf8(std::string_view text, size_t at);

/// Whether all of `text` is valid.
[[nodiscard]] bool is_utf8(std::string_view text);

/// Appends one code point (at most U+10FFFF) to `out`.
void append_utf8(std::string& out, uint32_t code_point);

/// The length of `text` without an incomplete character at its end. Invalid bytes count as complete: more bytes would
/// not make them valid.
[[nodiscard]] size_t complete_utf8_prefix(std::string_view text);

}  // namespace folio::core
