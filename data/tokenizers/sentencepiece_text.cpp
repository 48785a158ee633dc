#include "data/tokenizers/sentencepiece_text.h"

#include <fmt/format.h>

#include "core/error.h"

namespace folio::data {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  result.reserve(text.size() + text.size() / 8);
  for (;;) {
    const size_t at = text.find(from);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    result += to;
    text.remove_prefix(at + from.size());
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

void require_piece_length(std::string_view piece, size_t id, const std::string& where) {
  core::require(!piece.empty() && piece.size() <= kLongestPiece, "{}: piece {} has {} bytes, but must have 1 to {}",
                where, id, piece.size(), kLongestPiece);
}

std::string spaces_to_marks(std::string_view text) { return replace_all(text, " ", kSpaceMark); }
std::string marks_to_spaces(std::string_view text) { return replace_all(text, kSpaceMark, " "); }

std::string byte_piece(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<uint8_t> parse_byte_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  const int high = hex_digit(piece[3]);
  const int low = hex_digit(piece[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(16 * high + low);
}

}  // namespace folio::data
