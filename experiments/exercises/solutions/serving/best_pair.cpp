#include <map>
#include <utility>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

PairCount best_pair(const std::vector<CountedWord>& words) {
  std::map<std::pair<int32_t, int32_t>, int64_t> counts;
  for (const CountedWord& word : words) {
    for (size_t i = 1; i < word.tokens.size(); ++i) counts[{word.tokens[i - 1], word.tokens[i]}] += word.count;
  }
  PairCount best;
  for (const auto& [pair, count] : counts) {
    if (count > best.count) best = {.pair = {pair.first, pair.second}, .count = count};
  }
  return best;
}

}  // namespace folio::exercises
