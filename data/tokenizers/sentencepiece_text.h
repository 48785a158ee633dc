// How a SentencePiece vocabulary spells what is hard to see: U+2581 "▁" stands for a space, "<0x0A>" for one byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace folio::data {

inline constexpr std::string_view kSpaceMark = "\u2581";

/// Longer pieces are refused: it bounds the time that the joins of a character take, and those of a piece's splits.
inline constexpr size_t kLongestPiece = 1024;

/// Throws core::Error that begins with `where` if the piece is empty or longer than that.
void require_piece_length(std::string_view piece, size_t id, const std::string& where);

/// Every space as the mark, and every mark as a space. A mark that a text had before becomes a space too.
[[nodiscard]] std::string spaces_to_marks(std::string_view text);
[[nodiscard]] std::string marks_to_spaces(std::string_view text);

/// "<0x0A>" of 10, and the byte of such a piece (two upper-case digits, as SentencePiece writes them) or nothing.
[[nodiscard]] std::string byte_piece(uint8_t byte);
[[nodiscard]] std::optional<uint8_t> parse_byte_piece(std::string_view piece);

}  // namespace folio::data
