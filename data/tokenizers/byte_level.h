// GPT-2's byte-level alphabet: each byte shown as one printable character, so that any bytes are valid text.
// Source: bytes_to_unicode in https://github.com/openai/gpt-2/blob/master/src/encoder.py
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace folio::data {

/// Each byte as its character of the alphabet, in UTF-8: " " becomes "Ġ", "\n" becomes "Ċ".
[[nodiscard]] std::string bytes_to_byte_level(std::string_view bytes);

/// The inverse, or nothing if a character is not of the alphabet.
[[nodiscard]] std::optional<std::string> byte_level_to_bytes(std::string_view text);

}  // namespace folio::data
