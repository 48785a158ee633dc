#include <algorithm>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  NotRewritten,
  RightTokenStays,
  OneNumber,
  PastTheEnd,
  FirstWordOnly,
  FirstPlaceOnly,
  FromTheRight,
  Overlapping,
  EndsEarly,
  NeverEnds,
};

template <Wrong kWrong>
std::vector<Merge> merges_of(std::vector<CountedWord> words, int32_t first_new, size_t n_merges) {
  using enum Wrong;
  std::vector<Merge> merges;
  while (merges.size() < n_merges) {
    const PairCount best = best_pair(words);
    if (best.count < (kWrong == EndsEarly ? 2 : 1) && kWrong != NeverEnds) break;
    Merge pair = best.pair;
    const int32_t token = first_new + static_cast<int32_t>(kWrong == OneNumber ? 0 : merges.size());
    for (CountedWord& word : words) {
      auto& tokens = word.tokens;
      if (kWrong == FromTheRight) std::reverse(tokens.begin(), tokens.end()), pair = {best.pair.right, best.pair.left};
      std::vector<int32_t> merged;
      bool found = false;
      for (size_t i = 0; i < tokens.size(); ++i) {
        const auto is_place = [&](size_t at) {
          return (kWrong == PastTheEnd || at + 1 < tokens.size()) && Merge{tokens[at], tokens[at + 1]} == pair;
        };
        const bool here = is_place(i) && !(kWrong == FirstPlaceOnly && found);
        merged.push_back(here ? token : tokens[i]);
        found = found || here;
        if (here && kWrong != RightTokenStays && !(kWrong == Overlapping && is_place(i + 1))) ++i;
      }
      if (kWrong == FromTheRight) std::reverse(merged.begin(), merged.end());
      if (kWrong != NotRewritten) tokens = merged;
      if (kWrong == FirstWordOnly && found) break;
    }
    merges.push_back(best.pair);
  }
  return merges;
}

const std::vector<Mistake<decltype(train_merges)>> kMistakes{
    {"not_rewritten", "TheWordsAreRewritten", "the counts were not updated", merges_of<Wrong::NotRewritten>},
    {"right_token_stays", "TheWordsAreRewritten", "both tokens are replaced", merges_of<Wrong::RightTokenStays>},
    {"one_number", "TheWordsAreRewritten", "the same number", merges_of<Wrong::OneNumber>},
    {"past_the_end", "TheWordsAreRewritten", "past the end", merges_of<Wrong::PastTheEnd>},
    {"first_word_only", "EveryWordIsRewritten", "not in the first alone", merges_of<Wrong::FirstWordOnly>},
    {"first_place_only", "EveryPlaceOfAWordIsReplaced", "not the first place alone", merges_of<Wrong::FirstPlaceOnly>},
    {"from_the_right", "PlacesAreReplacedFromTheLeft", "from the right", merges_of<Wrong::FromTheRight>},
    {"overlapping", "PlacesAreReplacedFromTheLeft", "not merged again", merges_of<Wrong::Overlapping>},
    {"ends_early", "ItEndsWhenNoPairIsLeft", "comes once is merged, too", merges_of<Wrong::EndsEarly>},
    {"never_ends", "ItEndsWhenNoPairIsLeft", "there is no pair", merges_of<Wrong::NeverEnds>},
};

}  // namespace

std::vector<Merge> train_merges(std::vector<CountedWord> words, int32_t first_new, size_t n_merges) {
  return chosen(kMistakes, merges_of<Wrong::None>)(std::move(words), first_new, n_merges);
}

}  // namespace folio::exercises
