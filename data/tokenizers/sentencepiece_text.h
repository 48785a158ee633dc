// The spelling of SentencePiece vocabularies: U+2581 "▁" stands for a space, "<0x0A>" for one byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace folio::data {

inline constexpr std::string_view kSpaceMark = "\u2581";

/// Longer pieces are refused. This bounds the time for the merges of a character and for the splits of a piece.
inline constexpr size_t kLongestPiece = 1024;

/// Throws core::Error, prefixed with `where`, if the piece is empty or longer than kLongestPiece bytes.
void require_piece_length(std::string_view piece, size_t id, const std::string& where);

/// Replaces every space by the mark, and every mark by a space. A mark in the original text becomes a space too.
[[nodiscard]] std::string spaces_to_marks(std::string_view text);
[[nodiscard]] std::string marks_to_spaces(std::string_view text);

/// "<0x0A>" for 10, and its inverse, or nothing if the piece is not two upper-case digits in this form.
[[nodiscard]] std::string byte_piece(uint8_t byte);
[[nodiscard]] std::optional<uint8_t> parse_byte_piece(std::string_view piece);

}  // namespace folio::data
