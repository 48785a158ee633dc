// The laws of merging: which pair, what becomes of the text, and when it ends.
#include "experiments/exercises/laws/check.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

std::string shown(const std::vector<Merge>& merges) {
  std::string text;
  for (const Merge& m : merges) text += " (" + std::to_string(m.left) + ", " + std::to_string(m.right) + ")";
  return text.empty() ? " none" : text;
}

// Letters are tokens from 0 on, and new ones begin at 100.
void expect_merges(const std::string& text, size_t n, const std::vector<Merge>& expected, const std::string& why) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(c - 'a');
  tokens.shrink_to_fit();
  const auto merges = train_merges(tokens, 100, n);
  if (merges == expected) return;
  ADD_FAILURE() << "The merges of \"" << text << "\" are" << shown(merges) << ", but have to be" << shown(expected)
                << ". (a is 0, b is 1, …; new tokens begin at 100.)\n"
                << why;
}

TEST(BpeMerges, TheMostFrequentPairIsMerged) {
  expect_merges("acbcbcb", 1, {{2, 1}},
                "cb comes three times, bc twice and ac once. (0, 2) is the first pair of the text.");
}

TEST(BpeMerges, OfEqualPairsTheSmallestIsMerged) {
  expect_merges("dcdcabab", 1, {{0, 1}},
                "dc and ab come twice each, cd and ba at most once. Of equals the smaller is taken.");
}

TEST(BpeMerges, TheTextIsRewritten) {
  expect_merges(
      "abcdabcdabcd", 3, {{0, 1}, {2, 3}, {100, 101}},
      "ab becomes 100, cd becomes 101, and then the text is 100 101 100 101 100 101. If (0, 1) or (1, 2) comes after "
      "the first merge, the text still has the old tokens: both are replaced, by one. (100, 100) at the end means "
      "that all new tokens have the same number; it is first_new plus the number of merges before.");
}

TEST(BpeMerges, PlacesAreReplacedFromTheLeft) {
  expect_merges(
      "aaabaaab", 2, {{0, 0}, {0, 1}},
      "aaab becomes 100 a b, from left to right, and a token that was merged is not merged again with its neighbour. "
      "Then (0, 1) and (100, 0) come twice each. (0, 100) comes after a merge from the right, a 100 b.");
}

TEST(BpeMerges, WithoutAPairThatRepeatsItEnds) {
  expect_merges("abab", 5, {{0, 1}},
                "After one merge the text is 100 100, and its only pair comes once. A merge has to pay.");
}

TEST(BpeMerges, AShortTextHasNoPairs) {
  expect_merges("a", 3, {}, "One token has no neighbour.");
  expect_merges("", 3, {}, "There is nothing to merge.");
}

TEST(BpeMerges, TenMergesOfAText) {
  expect_merges("thecatsatonthematandthedogsatonthelogandthecatandthedogsat", 10,
                {{0, 19}, {7, 4}, {19, 101}, {0, 13}, {3, 102}, {14, 6}, {18, 100}, {103, 104}, {2, 100}, {3, 105}},
                "at, he, t-he, an, d-the, og, s-at, an-dthe, c-at, d-og.");
}

}  // namespace
}  // namespace folio::exercises
