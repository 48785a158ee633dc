// GPT-2's byte-level alphabet, which represents each byte by a printable character, so that any bytes are valid text.
// Source: bytes_to_unicode in https://github.com/openai/gpt-2/blob/master/src/encoder.py
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/vocabulary.h"

namespace folio::data {

/// Returns the bytes spelled in the byte-level alphabet, as UTF-8: " " becomes "Ġ", "\n" becomes "Ċ".
[[nodiscard]] std::string bytes_to_byte_level(std::string_view bytes);

/// Returns the bytes that `text` spells, or nullopt if a character is not in the byte-level alphabet.
[[nodiscard]] std::optional<std::string> byte_level_to_bytes(std::string_view text);

/// Returns the pieces as spelled in files: normal pieces in the byte-level alphabet, others unchanged.
[[nodiscard]] std::vector<std::string> to_byte_level(const Vocabulary& vocabulary);

/// Replaces the byte-level spelling of each piece (such as "Ġ" for a space) by its bytes, in place. Throws core::Error,
/// prefixed with `where`, for a normal piece with a character outside that alphabet.
void from_byte_level(Vocabulary& vocabulary, const std::string& where);

}  // namespace folio::data
