#include "data/tokenizers/byte_level.h"

#include <array>

#include "core/error.h"
#include "core/utf8.h"

namespace folio::data {
namespace {

// Returns the character of each byte: a printable Latin-1 byte is its own character, the others get U+0100 and up.
constexpr std::array<uint32_t, 256> make_alphabet() {
  std::array<uint32_t, 256> alphabet{};
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    alphabet[byte] = printable ? byte : next++;
  }
  return alphabet;
}

constexpr std::array<uint32_t, 256> kAlphabet = make_alphabet();

// Returns the byte of each character in the alphabet, and -1 for other characters.
constexpr std::array<int16_t, 0x180> make_inverse() {
  std::array<int16_t, 0x180> inverse{};
  inverse.fill(-1);
  for (int16_t byte = 0; byte < 256; ++byte) inverse[kAlphabet[static_cast<size_t>(byte)]] = byte;
  return inverse;
}

constexpr std::array<int16_t, 0x180> kInverse = make_inverse();

}  // namespace

std::string bytes_to_byte_level(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) core::append_utf8(text, kAlphabet[static_cast<unsigned char>(c)]);
  return text;
}

std::optional<std::string> byte_level_to_bytes(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const core::Utf8Char c = core::decode_utf8(text, at);
    if (!c.valid || c.code_point >= kInverse.size() || kInverse[c.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kInverse[c.code_point]));
    at += c.length;
  }
  return bytes;
}

std::vector<std::string> to_byte_level(const Vocabulary& v) {
  std::vector<std::string> spelt = v.pieces;
  for (size_t i = 0; i < spelt.size(); ++i) {
    if (v.types[i] == PieceType::Normal) spelt[i] = bytes_to_byte_level(spelt[i]);
  }
  return spelt;
}

void from_byte_level(Vocabulary& v, const std::string& where) {
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    if (v.types[i] != PieceType::Normal) continue;
    auto bytes = byte_level_to_bytes(v.pieces[i]);
    if (!bytes) {
      core::fail("{}: token {} (\"{}\") is not in the byte-level alphabet", where, i, core::printable(v.pieces[i]));
    }
    v.pieces[i] = *std::move(bytes);
  }
}

}  // namespace folio::data
