// Tests infer/sampling/stop_filter.h: the shown text doesn't depend on how an output is split into tokens, contains no
// part of the stop string that ends it, consists of whole characters, and is not held back longer than necessary.
#include "infer/sampling/stop_filter.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "core/utf8.h"

namespace folio::infer {
namespace {

struct Shown {
  std::string text;
  bool stopped;
};

// Returns what a filter must have shown after `text`.
Shown shown_after(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const auto read = std::string_view(text).substr(0, end);
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (read.ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {.text = text.substr(0, end - longest), .stopped = true};
  }
  size_t shown = core::complete_utf8_prefix(text);
  for (const std::string& stop : stops) {
    for (size_t n = 1; n < stop.size(); ++n) {
      if (text.ends_with(stop.substr(0, n))) shown = std::min(shown, text.size() - n);
    }
  }
  return {.text = text.substr(0, shown), .stopped = false};
}

void check_filter(const std::vector<std::string>& stops, const std::vector<std::string>& tokens) {
  StopFilter filter(stops);
  std::string text;
  std::string shown;
  for (const std::string& token : tokens) {
    const bool stops_here = filter.stopped() || filter.would_stop(token);
    text += token;
    shown += filter.push(token);
    const Shown right = shown_after(stops, text);
    ASSERT_EQ(shown, right.text) << text;
    ASSERT_EQ(filter.stopped(), right.stopped) << text;
    ASSERT_EQ(stops_here, right.stopped) << text;
  }
  ASSERT_EQ(shown + filter.finish(), filter.stopped() ? shown : text);
}

TEST(StopFilter, ShownTextDoesNotDependOnTokenBoundaries) {
  const std::vector<std::vector<std::string>> alphabets{
      {"a", "b"}, {"a", "é", "→", "😀", "😁"}, {"a", "\xE2", "\x80", "\xF0\x9F", "\xFF", "\xC0\xAF", "\xED\xA0"}};
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto& alphabet = alphabets[seed % alphabets.size()];
    uint64_t draws = 0;
    const auto below = [&](uint64_t n) { return core::random_below(seed, draws++, n); };
    const auto drawn = [&](uint64_t n) {
      std::string text;
      for (; n > 0; --n) text += alphabet[below(alphabet.size())];
      return text;
    };
    std::vector<std::string> stops;
    for (uint64_t n = below(4); n > 0; --n) stops.push_back(drawn(below(7)));  // an empty one never stops
    const std::string text = drawn(30);
    std::vector<std::string> bytes;
    for (const char c : text) bytes.emplace_back(1, c);
    std::vector<std::string> tokens;  // some are empty
    for (size_t at = 0; at < text.size(); at += tokens.back().size()) tokens.push_back(text.substr(at, below(5)));
    for (const auto& split : {bytes, tokens, {text}}) ASSERT_NO_FATAL_FAILURE(check_filter(stops, split));
  }
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

}  // namespace
}  // namespace folio::infer
