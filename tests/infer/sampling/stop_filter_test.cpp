// Tests infer/sampling/stop_filter.h: the shown text doesn't depend on how an output is split into tokens, contains no
// part of the stop string that ends it, and consists of whole characters.
#include "infer/sampling/stop_filter.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "core/utf8.h"

namespace folio::infer {
namespace {

struct Shown {
  std::string text;
  bool stopped = false;
  std::vector<std::string> pieces;
};

Shown show(std::vector<std::string> stops, const std::vector<std::string>& tokens) {
  StopFilter filter(std::move(stops));
  Shown shown;
  for (const std::string& token : tokens) {
    const bool stops = filter.stopped() || filter.would_stop(token);
    shown.pieces.push_back(filter.push(token));
    EXPECT_EQ(filter.stopped(), stops);
    shown.text += shown.pieces.back();
  }
  shown.stopped = filter.stopped();
  shown.pieces.push_back(filter.finish());
  shown.text += shown.pieces.back();
  return shown;
}

std::vector<std::string> bytes_of(const std::string& text) {
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  return bytes;
}

std::vector<std::string> cut_at_random(const std::string& text, uint64_t seed) {
  std::vector<std::string> tokens;
  uint64_t draws = 0;
  for (size_t at = 0; at < text.size(); at += tokens.back().size()) {
    tokens.push_back(text.substr(at, core::random_below(seed, draws++, 5)));  // some tokens are empty
  }
  return tokens;
}

TEST(StopFilter, WithoutStopsReturnsTextImmediately) {
  StopFilter filter({});
  EXPECT_EQ(filter.push("Hello"), "Hello");
  EXPECT_EQ(filter.push(""), "");
  EXPECT_EQ(filter.push("\n"), "\n");
  EXPECT_EQ(filter.finish(), "");
  EXPECT_FALSE(filter.stopped());
}

// The stop strings are repetitive, and the output nearly matches them. Rescanning all withheld text (up to 100,001
// characters) for each token would take at least 5 * 10^9 steps.
TEST(StopFilter, NearMatchesTakeLinearTime) {
  constexpr size_t kHalf = 50'000;
  const std::string run(kHalf, 'a');
  StopFilter filter({"x" + run + run + "z", run + "b" + run});
  std::string shown = filter.push("x");
  for (size_t i = 0; i < 2 * kHalf; ++i) shown += filter.push("a");
  EXPECT_EQ(shown, "");
  EXPECT_TRUE(filter.push("b") == "x" + run);
  EXPECT_FALSE(filter.stopped());
  for (size_t i = 0; i < kHalf; ++i) shown += filter.push("a");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopFilter, NeverShowsPartOfAStop) {
  StopFilter filter({"\n\nUser:"});
  EXPECT_EQ(filter.push("Yes.\n"), "Yes.");
  EXPECT_EQ(filter.push("\n"), "");
  EXPECT_EQ(filter.push("Use"), "");
  EXPECT_EQ(filter.push("r:"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("more"), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopFilter, ReleasesTextThatIsNotAStop) {
  StopFilter filter({"\n\nUser:"});
  EXPECT_EQ(filter.push("Yes.\n\nUse"), "Yes.");
  EXPECT_EQ(filter.push("ful"), "\n\nUseful");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, FinishReleasesHeldText) {
  StopFilter filter({"END"});
  EXPECT_EQ(filter.push("the EN"), "the ");
  EXPECT_EQ(filter.finish(), "EN");
  EXPECT_EQ(filter.finish(), "");
  EXPECT_FALSE(filter.stopped());
  EXPECT_EQ(show({}, {"\xE2\x82"}).text, "\xE2\x82");
}

TEST(StopFilter, EarliestStopEnds) {
  EXPECT_EQ(show({"two", "one"}, {"zero one two"}).text, "zero ");
  EXPECT_EQ(show({"one", "two"}, bytes_of("zero two one")).text, "zero ");
  EXPECT_EQ(show({"x", "yyy"}, bytes_of("ayyx")).text, "ayy");
}

TEST(StopFilter, IgnoresEmptyStops) {
  const auto shown = show({"", "END"}, {"abc", "E"});
  EXPECT_EQ(shown.text, "abcE");
  EXPECT_FALSE(shown.stopped);
}

TEST(StopFilter, ShowsOnlyWholeCharacters) {
  const std::string text = "aé€😀z→";
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto tokens = seed == 0 ? bytes_of(text) : cut_at_random(text, seed);
    const auto shown = show({"😀y", "→→"}, tokens);
    EXPECT_EQ(shown.text, text);
    for (const std::string& piece : shown.pieces) {
      for (size_t at = 0; at < piece.size();) {
        const auto c = core::decode_utf8(piece, at);
        ASSERT_TRUE(c.valid) << "seed " << seed;
        at += c.length;
      }
    }
  }
  StopFilter filter({});
  EXPECT_EQ(filter.push("\xF0\x9F"), "");
  EXPECT_EQ(filter.push("\x98"), "");
  EXPECT_EQ(filter.push("\x80!"), "😀!");
}

TEST(StopFilter, StopsMayBeMultibyteCharacters) {
  EXPECT_EQ(show({"→"}, bytes_of("a→b")).text, "a");
  EXPECT_EQ(show({"😀"}, {"x\xF0\x9F", "\x98", "\x80y"}).text, "x");
  // A character that shares only its first bytes with the stop string's character must be shown.
  EXPECT_EQ(show({"😀"}, bytes_of("x😁y")).text, "x😁y");
}

TEST(StopFilter, InvalidBytesAreNotHeldBack) {
  StopFilter filter({"END"});
  EXPECT_EQ(filter.push("\xFF"), "\xFF");
  EXPECT_EQ(filter.push("\x80\x80\x80\x80\x80"), "\x80\x80\x80\x80\x80");
  EXPECT_EQ(filter.push("\xC0\xAF"), "\xC0\xAF");
  EXPECT_EQ(filter.push("\xE2\x41"), "\xE2\x41");
  EXPECT_EQ(filter.push("\xED\xA0"), "\xED\xA0");  // a surrogate is invalid in UTF-8
  // The withheld text stays short, even if the bytes never form a character.
  StopFilter any({"END", "\xFF\xFE"});
  size_t in = 0;
  size_t out = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    const std::string byte(1, static_cast<char>(core::random_below(1, i, 255)));  // no 0xFF, which begins a stop string
    in += 1;
    out += any.push(byte).size();
    ASSERT_LE(in - out, 5U) << "byte " << i;
    if (any.stopped()) break;
  }
}

TEST(StopFilter, ResultDoesNotDependOnTokenBoundaries) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < 30; ++i) text += "ab"[core::random_below(seed, i, 2)];
    std::string stop;
    for (uint64_t i = 0; i < 2 + seed % 5; ++i) stop += "ab"[core::random_below(seed + 1000, i, 2)];
    const size_t found = text.find(stop);
    for (const auto& tokens : {bytes_of(text), cut_at_random(text, seed), {text}}) {
      const auto shown = show({stop}, tokens);
      ASSERT_EQ(shown.text, text.substr(0, found)) << text << " until " << stop;
      ASSERT_EQ(shown.stopped, found != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace folio::infer
