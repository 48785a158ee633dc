// GPT-2's byte-level alphabet: each byte is one printable character, so that any bytes can be written as text.
// Source: bytes_to_unicode in https://github.com/openai/gpt-2/blob/master/src/encoder.py
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/vocabulary.h"

namespace folio::data {

/// Each byte as its character of the alphabet, in UTF-8: " " becomes "Ġ", "\n" becomes "Ċ".
[[nodiscard]] std::string bytes_to_byte_level(std::string_view bytes);

/// The inverse, or nothing if a character is not in the alphabet.
[[nodiscard]] std::optional<std::string> byte_level_to_bytes(std::string_view text);

/// The pieces as files spell them: normal ones in the alphabet, others unchanged.
[[nodiscard]] std::vector<std::string> to_byte_level(const Vocabulary& vocabulary);

/// The inverse, in place. Throws core::Error, prefixed with `where`, if a normal piece is not in the alphabet.
void from_byte_level(Vocabulary& vocabulary, const std::string& where);

}  // namespace folio::data
