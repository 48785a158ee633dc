// Tests core/utf8.h: it accepts exactly the byte sequences that RFC 3629 allows, and never splits a character.
#include "core/utf8.h"

#include <gtest/gtest.h>

namespace folio::core {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
  std::string text;
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    text.clear();
    append_utf8(text, c);
    ASSERT_EQ(text.size(), c < 0x80 ? 1U : c < 0x800 ? 2U : c < 0x10000 ? 3U : 4U);
    const Utf8Char decoded = decode_utf8(text, 0);
    ASSERT_TRUE(decoded.valid) << c;
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, text.size());
  }
}

// Returns the length of the character at the start of `s`, or 0 if it is invalid, by the table in RFC 3629, section 4.
size_t by_the_table(std::string_view s) {
  const auto b = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U; };
  const auto in = [&](size_t i, unsigned low, unsigned high) { return b(i) >= low && b(i) <= high; };
  const auto tail = [&](size_t i) { return in(i, 0x80, 0xBF); };
  if (b(0) < 0x80) return 1;
  if (in(0, 0xC2, 0xDF) && tail(1)) return 2;
  if (b(0) == 0xE0 && in(1, 0xA0, 0xBF) && tail(2)) return 3;
  if ((in(0, 0xE1, 0xEC) || in(0, 0xEE, 0xEF)) && tail(1) && tail(2)) return 3;
  if (b(0) == 0xED && in(1, 0x80, 0x9F) && tail(2)) return 3;
  if (b(0) == 0xF0 && in(1, 0x90, 0xBF) && tail(2) && tail(3)) return 4;
  if (in(0, 0xF1, 0xF3) && tail(1) && tail(2) && tail(3)) return 4;
  if (b(0) == 0xF4 && in(1, 0x80, 0x8F) && tail(2) && tail(3)) return 4;
  return 0;
}

TEST(Utf8, MatchesTheTableForAllByteSequences) {
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      for (const char* rest : {"", "\x80", "\xBF\x80", "A\x80",
                               "\x80"
                               "A",
                               "\xC3\xA9"}) {
        const std::string s = {static_cast<char>(first), static_cast<char>(second)};
        const Utf8Char c = decode_utf8(s + rest, 0);
        const size_t expected = by_the_table(s + rest);
        ASSERT_EQ(c.valid, expected != 0) << first << ' ' << second;
        ASSERT_EQ(c.length, expected == 0 ? 1 : expected);
      }
    }
  }
}

TEST(Utf8, TruncatedMeansCompletable) {
  for (const char* cut : {"\xC3", "\xE2", "\xE2\x82", "\xF0", "\xF0\x9F", "\xF0\x9F\x98", "\xE0", "\xED", "\xF4"}) {
    EXPECT_TRUE(decode_utf8(cut, 0).truncated);
    EXPECT_FALSE(decode_utf8(cut, 0).valid);
  }
  for (const char* hopeless : {"\xE0\x80", "\xED\xA0", "\xF4\x90",
                               "\xE2"
                               "A",
                               "\xF0\x9F"
                               "A"}) {
    EXPECT_FALSE(decode_utf8(hopeless, 0).truncated);
  }
}

TEST(CompleteUtf8Prefix, ExcludesOnlyATruncatedLastCharacter) {
  const std::string text = "aé日😀z";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    size_t whole = 0;
    while (whole < cut && whole + decode_utf8(text, whole).length <= cut) whole += decode_utf8(text, whole).length;
    EXPECT_EQ(complete_utf8_prefix(text.substr(0, cut)), whole) << cut;
  }
}

TEST(CompleteUtf8Prefix, IncludesInvalidBytes) {
  for (const std::string bad :
       {"\xFF", "a\x80", "\x80\x80\x80\x80", "\xE2\x82\xAC\x80", "\xE0\x80", "\xED\xA0", "\xC3\xC3\xA9"}) {
    EXPECT_EQ(complete_utf8_prefix(bad), bad.size());
  }
  EXPECT_EQ(complete_utf8_prefix("\xFF\xC3"), 1U);
  EXPECT_EQ(complete_utf8_prefix("\xC3\xC3"), 1U);
}

TEST(Utf8, StringIsValidIfEachCharacterIs) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\u00E9\U0001F600"));
  for (const char* text : {"\xFF", "a\xC3", "\xED\xA0\x80", "\xC0\x80z"}) EXPECT_FALSE(is_utf8(text)) << text;
}

}  // namespace
}  // namespace folio::core
