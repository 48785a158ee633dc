// Tests of train_merges: replacement in all words, the end condition, and equality with Folio's BPE trainer.
#include <map>

#include "data/tokenizers/training/bpe_trainer.h"
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/properties/serving/words.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

constexpr int32_t kFirstNew = 100;

std::string shown(const std::vector<Merge>& merges) {
  std::string text;
  for (const Merge& m : merges) text += " " + shown(m);
  return text.empty() ? " none" : text;
}

void expect_merges(const std::vector<Spelled>& words, size_t n, const std::vector<Merge>& expected,
                   const std::string& why) {
  const auto merges = train_merges(counted(words), kFirstNew, n);
  if (merges == expected) return;
  ADD_FAILURE() << "The merges of" << shown(words) << " are" << shown(merges) << ", but have to be" << shown(expected)
                << ". (a is 0, b is 1, …; new tokens begin at 100.)\n"
                << why;
}

TEST(BpeMerges, TheWordsAreRewritten) {
  expect_merges(
      {{"abcd", 3}}, 3, {{0, 1}, {2, 3}, {100, 101}},
      "ab becomes 100, cd becomes 101, and then the word is 100 101. If (0, 1) comes again, the counts were not "
      "updated: "
      "they are those of the old word. (1, 2) means that the word still has the b of ab: both tokens are replaced, by "
      "one. (100, 100) at the end means that all new tokens have the same number; it is first_new plus the number of "
      "merges before.");
}

TEST(BpeMerges, EveryWordIsRewritten) {
  expect_merges({{"abc", 2}, {"abd", 2}}, 3, {{0, 1}, {100, 2}, {100, 3}},
                "Both words have the pair (0, 1), so it becomes 100 in both, and not in the first alone.");
}

TEST(BpeMerges, EveryPlaceOfAWordIsReplaced) {
  expect_merges({{"abcab", 2}}, 2, {{0, 1}, {2, 100}},
                "The word becomes 100 c 100: ab stands in it twice, and not the first place alone is replaced.");
}

TEST(BpeMerges, PlacesAreReplacedFromTheLeft) {
  expect_merges(
      {{"aaab", 2}}, 2, {{0, 0}, {0, 1}},
      "aaab becomes 100 a b, from left to right. (0, 100) comes after a merge from the right, a 100 b, and (100, 1) "
      "where places that overlap are both replaced, 100 100 b: a token that was merged is not merged again with its "
      "neighbour.");
}

TEST(BpeMerges, ItEndsWhenNoPairIsLeft) {
  expect_merges({{"abc", 1}}, 5, {{0, 1}, {100, 2}},
                "A pair that comes once is merged, too. Then the word is one token, and there is no pair: the end, "
                "however many merges are asked for.");
  expect_merges({{"a", 4}, {"", 1}}, 3, {}, "There is nothing to merge.");
  expect_merges({{"abc", 1}}, 0, {}, "None is asked for.");
}

TEST(BpeMerges, TenMergesOfAText) {
  expect_merges(
      {{"the", 6}, {"cat", 2}, {"sat", 3}, {"on", 2}, {"mat", 1}, {"and", 3}, {"dog", 2}, {"log", 1}}, 10,
      {{0, 19}, {7, 4}, {19, 101}, {0, 13}, {14, 6}, {18, 100}, {103, 3}, {2, 100}, {3, 104}, {14, 13}},
      "The text is: the cat sat on the mat and the dog sat on the log and the cat and the dog sat. The merges "
      "are at, he, t-he, an, og, s-at, an-d, c-at, d-og, on.");
}

// Compares train_merges() with data::train_bpe(). There <|endoftext|> is token 0 and the bytes are tokens 1 to 256, so
// the first merge creates token 257.
TEST(BpeMerges, TheyAreThoseOfTokenizeTrain) {
  const std::string text =
      "Full fathom five thy father lies;\nOf his bones are coral made;\nThose are pearls that were his eyes:\nNothing "
      "of him that doth fade,\nBut doth suffer a sea-change\nInto something rich and strange.\nSea-nymphs hourly ring "
      "his knell:\nHark! now I hear them,--ding-dong, bell. Mississippi aaaa aaaaaaa\n";
  core::ThreadPool pool(1);
  const std::string_view whole = text;
  data::WordCounts counts(data::PreTokenizer::Gpt2);
  counts.add({&whole, 1}, pool, "the song");
  const data::BpeVocabulary ours = data::train_bpe(counts, {.vocab_size = 257 + 80});
  std::map<char, int32_t> ids;
  for (int32_t id = 1; id <= 256; ++id) ids[ours.pieces[static_cast<size_t>(id)].front()] = id;
  std::vector<CountedWord> words;
  for (const auto& word : counts.words()) {
    words.push_back({.tokens = {}, .count = static_cast<int64_t>(word.count)});
    for (const char c : word.bytes) words.back().tokens.push_back(ids.at(c));
  }
  const auto yours = train_merges(words, 257, ours.merges.size());
  ASSERT_EQ(yours.size(), ours.merges.size()) << "This is how many merges of a song there are.";
  for (size_t i = 0; i < yours.size(); ++i) {
    const auto [left, right, joined] = ours.merges[i];
    ASSERT_EQ(joined, 257 + static_cast<int32_t>(i))
        << "The song was chosen so that no two merges give the same token.";
    if (yours[i] == Merge{left, right}) continue;
    const auto spelled = [&](int32_t token) {
      return token < 257 + static_cast<int32_t>(i) ? ours.pieces[static_cast<size_t>(token)] : "?";
    };
    FAIL() << "Merge " << i << " of a song is \"" << spelled(yours[i].left) << "\" and \"" << spelled(yours[i].right)
           << "\", but has to be \"" << spelled(left) << "\" and \"" << spelled(right) << "\".\n"
           << "build/tokenize train makes these merges of the same text.";
  }
}

}  // namespace
}  // namespace folio::exercises
