// The mistakes, each with the test that must fail first and words of its message:
//     not_rewritten: TheWordsAreRewritten: the counts were not updated
//     right_token_stays: TheWordsAreRewritten: both tokens are replaced
//     one_number: TheWordsAreRewritten: the same number
//     past_the_end: TheWordsAreRewritten: past the end
//     first_word_only: EveryWordIsRewritten: not in the first alone
//     first_place_only: EveryPlaceOfAWordIsReplaced: not the first place alone
//     from_the_right: PlacesAreReplacedFromTheLeft: from the right
//     overlapping: PlacesAreReplacedFromTheLeft: not merged again
//     ends_early: ItEndsWhenNoPairIsLeft: comes once is merged, too
//     never_ends: ItEndsWhenNoPairIsLeft: there is no pair
#include <algorithm>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

std::vector<Merge> train_merges(std::vector<CountedWord> words, int32_t first_new, size_t n_merges) {
  std::vector<Merge> merges;
  while (merges.size() < n_merges) {
    const PairCount best = best_pair(words);
    if (best.count < (wrong("ends_early") ? 2 : 1) && !wrong("never_ends")) break;
    Merge pair = best.pair;
    const int32_t token = first_new + static_cast<int32_t>(wrong("one_number") ? 0 : merges.size());
    for (CountedWord& word : words) {
      auto& tokens = word.tokens;
      if (wrong("from_the_right")) std::reverse(tokens.begin(), tokens.end()), pair = {best.pair.right, best.pair.left};
      std::vector<int32_t> merged;
      bool found = false;
      for (size_t i = 0; i < tokens.size(); ++i) {
        const auto is_place = [&](size_t at) {
          return (wrong("past_the_end") || at + 1 < tokens.size()) && Merge{tokens[at], tokens[at + 1]} == pair;
        };
        const bool here = is_place(i) && !(wrong("first_place_only") && found);
        merged.push_back(here ? token : tokens[i]);
        found = found || here;
        if (here && !wrong("right_token_stays") && !(wrong("overlapping") && is_place(i + 1))) ++i;
      }
      if (wrong("from_the_right")) std::reverse(merged.begin(), merged.end());
      if (!wrong("not_rewritten")) tokens = merged;
      if (wrong("first_word_only") && found) break;
    }
    merges.push_back(best.pair);
  }
  return merges;
}

}  // namespace folio::exercises
