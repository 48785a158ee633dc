#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

std::vector<Merge> train_merges(std::vector<CountedWord> words, int32_t first_new, size_t n_merges) {
  std::vector<Merge> merges;
  while (merges.size() < n_merges) {
    const PairCount best = best_pair(words);
    if (best.count == 0) break;
    const int32_t token = first_new + static_cast<int32_t>(merges.size());
    for (CountedWord& word : words) {
      std::vector<int32_t> merged;
      for (size_t i = 0; i < word.tokens.size(); ++i) {
        const bool here = i + 1 < word.tokens.size() && Merge{word.tokens[i], word.tokens[i + 1]} == best.pair;
        merged.push_back(here ? token : word.tokens[i]);
        if (here) ++i;
      }
      word.tokens = merged;
    }
    merges.push_back(best.pair);
  }
  return merges;
}

}  // namespace folio::exercises
