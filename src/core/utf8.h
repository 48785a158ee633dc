// Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace folio::core {

struct Utf8Char {
  uint32_t code_point = 0;
  size_t length = 1;  ///< length in bytes; 1 for an invalid byte
  bool valid = false;
  bool truncated = false;  ///< true if invalid because the text ends within the character
};

/// Decodes the character at byte `at`, which must be below text.size().
[[nodiscard]] Utf8Char decode_utf8(std::string_view text, size_t at);

/// A location in a text. Lines and columns count from 1; a column is a character.
struct TextPlace {
  size_t line = 1;
  size_t column = 1;

  void move_past(std::string_view text);  ///< moves to the end of `text`, which begins at this place
};

/// Returns true if all of `text` is valid UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text);

/// Appends one code point (at most U+10FFFF) to `out`.
void append_utf8(std::string& out, uint32_t code_point);

/// Returns the length of `text` without an incomplete character at its end. Invalid bytes count as complete, since more
/// bytes would not make them valid.
[[nodiscard]] size_t complete_utf8_prefix(std::string_view text);

}  // namespace folio::core
