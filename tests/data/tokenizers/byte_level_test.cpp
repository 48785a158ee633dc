#include "data/tokenizers/byte_level.h"

#include <gtest/gtest.h>

#include <set>

#include "core/utf8.h"

namespace folio::data {
namespace {

std::string all_bytes() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  return bytes;
}

TEST(ByteLevel, KnownBytesMatchGpt2) {
  EXPECT_EQ(bytes_to_byte_level("Az09~!"), "Az09~!");
  EXPECT_EQ(bytes_to_byte_level(" "), "Ġ");
  EXPECT_EQ(bytes_to_byte_level("\n"), "Ċ");
  EXPECT_EQ(bytes_to_byte_level(std::string(1, '\0')), "Ā");
  EXPECT_EQ(bytes_to_byte_level("\x7F"), "ġ");
  EXPECT_EQ(bytes_to_byte_level("\xAD"), "Ń");  // soft hyphen, an unprintable byte
  EXPECT_EQ(bytes_to_byte_level("😀"), "ðŁĺĢ");
}

TEST(ByteLevel, BytesMapToDistinctPrintableCharacters) {
  const std::string text = bytes_to_byte_level(all_bytes());
  std::set<uint32_t> seen;
  for (size_t at = 0; at < text.size();) {
    const core::Utf8Char c = core::decode_utf8(text, at);
    ASSERT_TRUE(c.valid);
    EXPECT_GT(c.code_point, 0x20U);
    seen.insert(c.code_point);
    at += c.length;
  }
  EXPECT_EQ(seen.size(), 256U);
}

TEST(ByteLevel, InverseRestoresTheBytes) {
  EXPECT_EQ(byte_level_to_bytes(bytes_to_byte_level(all_bytes())), all_bytes());
  EXPECT_EQ(byte_level_to_bytes(""), "");
}

TEST(ByteLevel, TextOutsideTheAlphabetHasNoInverse) {
  EXPECT_EQ(byte_level_to_bytes("a b"), std::nullopt);  // a space would be Ġ
  EXPECT_EQ(byte_level_to_bytes("中"), std::nullopt);
  EXPECT_EQ(byte_level_to_bytes("a\xC3"), std::nullopt);  // invalid UTF-8
}

}  // namespace
}  // namespace folio::data
