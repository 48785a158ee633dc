// The spelling of SentencePiece's vocabularies: U+2581 "▁" represents a space, "<0x0A>" a byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace folio::data {

inline constexpr std::string_view kSpaceMark = "\u2581";

/// Maximum length of a piece in bytes. Bounds the time to merge a character and to find the splits of a piece.
inline constexpr size_t kLongestPiece = 1024;

/// Throws core::Error, prefixed with `where`, if the piece is empty or longer than kLongestPiece bytes.
void require_piece_length(std::string_view piece, size_t id, const std::string& where);

/// These replace spaces by marks, and marks by spaces. A mark in the original text also becomes a space.
[[nodiscard]] std::string spaces_to_marks(std::string_view text);
[[nodiscard]] std::string marks_to_spaces(std::string_view text);

/// byte_piece(10) returns "<0x0A>". parse_byte_piece() is its inverse, with nullopt for any other form.
[[nodiscard]] std::string byte_piece(uint8_t byte);
[[nodiscard]] std::optional<uint8_t> parse_byte_piece(std::string_view piece);

}  // namespace folio::data
