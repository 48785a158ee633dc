// Tests of best_pair: which occurrences are counted, weighting by word counts, and how ties are resolved.
#include "core/random.h"
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/properties/serving/words.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

void expect_pair(const std::vector<Spelled>& words, const PairCount& expected, const std::string& why) {
  const PairCount best = best_pair(counted(words));
  if (best.pair == expected.pair && best.count == expected.count) return;
  ADD_FAILURE() << "The best pair of" << shown(words) << " is " << shown(best.pair) << ", " << best.count
                << " times, but has to be " << shown(expected.pair) << ", " << expected.count
                << " times. (a is 0, b is 1, …)\n"
                << why;
}

TEST(BestPair, TheMostFrequentPairIsTaken) {
  expect_pair({{"acbcbcb", 1}}, {{2, 1}, 3}, "cb comes three times, bc twice and ac once. (0, 2) is the first pair.");
}

TEST(BestPair, AWordCountsAsOftenAsItComes) {
  expect_pair({{"ab", 5}, {"cd", 1}, {"ecd", 1}, {"cdf", 1}}, {{0, 1}, 5},
              "ab is one word that comes five times. cd is in three words, each of which comes once.");
}

TEST(BestPair, NoPairCrossesAWord) {
  expect_pair({{"ab", 3}, {"cb", 2}, {"cd", 2}}, {{0, 1}, 3},
              "The last token of a word and the first of the next one are no neighbours.");
  expect_pair({{"a", 7}, {"b", 7}}, {{-1, -1}, 0}, "One token has no neighbour, and there is no other pair.");
}

TEST(BestPair, OfEqualPairsTheSmallestIsTaken) {
  expect_pair({{"dc", 2}, {"ab", 2}}, {{0, 1}, 2},
              "dc and ab come twice each. Of equals it is the one with the smaller left token, wherever it stands.");
  expect_pair({{"ac", 2}, {"ab", 2}}, {{0, 1}, 2}, "The left tokens are equal, so the smaller right one decides.");
}

TEST(BestPair, PlacesThatOverlapCount) {
  expect_pair({{"aaa", 1}, {"bc", 1}, {"cbc", 1}, {"aab", 1}}, {{0, 0}, 3},
              "(a, a) comes twice in aaa, at the places 0 and 1, and once in aab. When counting, no place is skipped.");
}

TEST(BestPair, CountsAreLarge) {
  expect_pair({{"ab", 3'000'000'000}, {"bab", 3'000'000'000}, {"cd", 2'000'000'000}}, {{0, 1}, 6'000'000'000},
              "Large texts have such counts, and 32 bits have no room for them. Is each sum an int64_t?");
}

TEST(BestPair, AnEmptyWordHasNoPairs) { expect_pair({{"", 3}, {"a", 2}}, {{-1, -1}, 0}, "Neither has a pair."); }

// Compares best_pair() on random words with a search that counts each possible pair separately.
TEST(BestPair, AnyWordsAreCountedAsPairByPair) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<Spelled> words;
    uint64_t n = 0;
    const auto below = [&](uint64_t limit) { return core::random_below(seed, n++, limit); };
    for (size_t w = 0; w < 8; ++w) {
      std::string text;
      for (size_t i = below(7); i > 0; --i) text += static_cast<char>('a' + below(3));
      words.push_back({text, static_cast<int64_t>(1 + below(3))});
    }
    PairCount expected;
    for (char left = 'a'; left <= 'c'; ++left) {
      for (char right = 'a'; right <= 'c'; ++right) {
        int64_t count = 0;
        for (const Spelled& word : words) {
          const std::string pair{left, right};
          for (size_t at = word.text.find(pair); at != std::string::npos; at = word.text.find(pair, at + 1)) {
            count += word.count;
          }
        }
        if (count > expected.count) expected = {{left - 'a', right - 'a'}, count};
      }
    }
    expect_pair(words, expected, "Every pair was looked for in every word.");
  }
}

}  // namespace
}  // namespace folio::exercises
