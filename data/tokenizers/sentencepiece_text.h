// The spelling of SentencePiece's vocabularies: U+2581 "▁" represents a space, "<0x0A>" a byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace folio::data {

inline constexpr std::string_view kSpaceMark = "\u2581";

/// Maximum length of a piece in bytes. Limits the time to look up the result of a merge, and the ways to split a piece.
inline constexpr size_t kLongestPiece = 1024;

/// Throws core::Error, prefixed with `where`, if the piece is empty or longer than kLongestPiece bytes.
void require_piece_length(std::string_view piece, size_t id, const std::string& where);

/// Replaces each space by U+2581. marks_to_spaces() replaces each U+2581 by a space, even one from the original text.
[[nodiscard]] std::string spaces_to_marks(std::string_view text);
[[nodiscard]] std::string marks_to_spaces(std::string_view text);

/// Returns the piece that represents a byte, such as "<0x0A>". parse_byte_piece() returns nullopt for any other piece.
[[nodiscard]] std::string byte_piece(uint8_t byte);
[[nodiscard]] std::optional<uint8_t> parse_byte_piece(std::string_view piece);

}  // namespace folio::data
