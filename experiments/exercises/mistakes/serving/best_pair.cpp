#include <map>
#include <type_traits>
#include <utility>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  FirstPair,
  WordsCountOnce,
  AcrossWords,
  LargestOfEquals,
  FirstSeenOfEquals,
  NoOverlap,
  SmallCounts,
  SizeMinusOne,
};

template <Wrong kWrong>
PairCount counted_best(const std::vector<CountedWord>& words) {
  using enum Wrong;
  using Pair = std::pair<int32_t, int32_t>;
  std::map<Pair, std::conditional_t<kWrong == SmallCounts, uint32_t, int64_t>> counts;
  std::vector<Pair> seen;
  int32_t last = -1;  // last token of the previous non-empty word; -1: none yet
  for (const CountedWord& word : words) {
    const auto add = [&](int32_t left, int32_t right) {
      counts[{left, right}] += kWrong == WordsCountOnce ? 1 : static_cast<uint32_t>(word.count);
      seen.emplace_back(left, right);
    };
    const auto& tokens = word.tokens;
    if (kWrong == AcrossWords && last >= 0 && !tokens.empty()) add(last, tokens.front());
    if (kWrong == SizeMinusOne) {
      for (size_t i = 0; i < tokens.size() - 1; ++i) add(tokens[i], tokens[i + 1]);
    } else {
      for (size_t i = 1; i < tokens.size(); ++i) {
        add(tokens[i - 1], tokens[i]);
        if (kWrong == NoOverlap && i + 1 < tokens.size() && tokens[i - 1] == tokens[i] && tokens[i] == tokens[i + 1])
          ++i;
      }
    }
    if (!tokens.empty()) last = tokens.back();
  }
  PairCount best;
  const auto look = [&](const Pair& pair) {
    const auto count = static_cast<int64_t>(counts[pair]);
    bool better = count > best.count || (kWrong == LargestOfEquals && count == best.count);
    if (better) best = {.pair = {pair.first, pair.second}, .count = count};
  };
  if (kWrong == FirstPair) {
    if (!seen.empty()) look(seen.front());
  } else if (kWrong == FirstSeenOfEquals) {
    for (const Pair& pair : seen) look(pair);
  } else {
    for (const auto& [pair, count] : std::map(counts)) look(pair);
  }
  return best;
}

const std::vector<Mistake<decltype(best_pair)>> kMistakes{
    {"first_pair", "TheMostFrequentPairIsTaken", "is the first pair", counted_best<Wrong::FirstPair>},
    {"words_count_once", "AWordCountsAsOftenAsItComes", "one word that comes five times",
     counted_best<Wrong::WordsCountOnce>},
    {"across_words", "NoPairCrossesAWord", "are no neighbours", counted_best<Wrong::AcrossWords>},
    {"largest_of_equals", "OfEqualPairsTheSmallestIsTaken", "the smaller left token",
     counted_best<Wrong::LargestOfEquals>},
    {"first_seen_of_equals", "OfEqualPairsTheSmallestIsTaken", "wherever it stands",
     counted_best<Wrong::FirstSeenOfEquals>},
    {"no_overlap", "PlacesThatOverlapCount", "no place is skipped", counted_best<Wrong::NoOverlap>},
    {"small_counts", "CountsAreLarge", "32 bits have no room", counted_best<Wrong::SmallCounts>},
    {"size_minus_one", "AnEmptyWordHasNoPairs", "A size_t has no numbers below 0", counted_best<Wrong::SizeMinusOne>},
};

}  // namespace

PairCount best_pair(const std::vector<CountedWord>& words) {
  return chosen(kMistakes, counted_best<Wrong::None>)(words);
}

}  // namespace folio::exercises
