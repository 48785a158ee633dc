// The mistakes, each with the test that must fail first and words of its message:
//     first_pair: TheMostFrequentPairIsTaken: is the first pair
//     words_count_once: AWordCountsAsOftenAsItComes: one word that comes five times
//     across_words: NoPairCrossesAWord: are no neighbours
//     largest_of_equals: OfEqualPairsTheSmallestIsTaken: the smaller left token
//     first_seen_of_equals: OfEqualPairsTheSmallestIsTaken: wherever it stands
//     no_overlap: PlacesThatOverlapCount: no place is skipped
//     small_counts: CountsAreLarge: 32 bits have no room
//     size_minus_one: AnEmptyWordHasNoPairs: A size_t has no numbers below 0
#include <map>
#include <utility>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

PairCount best_pair(const std::vector<CountedWord>& words) {
  using Pair = std::pair<int32_t, int32_t>;
  std::map<Pair, int64_t> counts;
  std::vector<Pair> seen;
  int32_t last = -1;  // last token of the previous non-empty word; -1: none yet
  for (const CountedWord& word : words) {
    const auto add = [&](int32_t left, int32_t right) {
      int64_t& count = counts[{left, right}];
      count += wrong("words_count_once") ? 1 : word.count;
      if (wrong("small_counts")) count = static_cast<uint32_t>(count);
      seen.emplace_back(left, right);
    };
    const auto& tokens = word.tokens;
    if (wrong("across_words") && last >= 0 && !tokens.empty()) add(last, tokens.front());
    if (wrong("size_minus_one")) {
      for (size_t i = 0; i < tokens.size() - 1; ++i) add(tokens[i], tokens[i + 1]);
    } else {
      for (size_t i = 1; i < tokens.size(); ++i) {
        add(tokens[i - 1], tokens[i]);
        if (wrong("no_overlap") && i + 1 < tokens.size() && tokens[i - 1] == tokens[i] && tokens[i] == tokens[i + 1])
          ++i;
      }
    }
    if (!tokens.empty()) last = tokens.back();
  }
  PairCount best;
  const auto look = [&](const Pair& pair) {
    const int64_t count = counts[pair];
    bool better = count > best.count || (wrong("largest_of_equals") && count == best.count);
    if (better) best = {.pair = {pair.first, pair.second}, .count = count};
  };
  if (wrong("first_pair")) {
    if (!seen.empty()) look(seen.front());
  } else if (wrong("first_seen_of_equals")) {
    for (const Pair& pair : seen) look(pair);
  } else {
    for (const auto& [pair, count] : std::map(counts)) look(pair);
  }
  return best;
}

}  // namespace folio::exercises
