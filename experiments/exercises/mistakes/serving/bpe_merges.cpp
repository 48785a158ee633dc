#include <algorithm>
#include <map>
#include <utility>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  FirstPair,
  LargestOfEquals,
  NotRewritten,
  RightTokenStays,
  OneNumber,
  FromTheRight,
  NeverEnds,
  SizeMinusOne,
};

template <Wrong kWrong>
std::vector<Merge> merges_of(std::vector<int32_t> text, int32_t first_new, size_t n_merges) {
  using enum Wrong;
  std::vector<Merge> merges;
  while (merges.size() < n_merges) {
    std::map<std::pair<int32_t, int32_t>, size_t> count;
    if (kWrong == SizeMinusOne) {
      for (size_t i = 0; i < text.size() - 1; ++i) ++count[{text[i], text[i + 1]}];
    } else {
      for (size_t i = 1; i < text.size(); ++i) ++count[{text[i - 1], text[i]}];
    }
    size_t most = 0;
    Merge best{};
    for (const auto& [pair, n] : count) {
      if (n > most || (kWrong == LargestOfEquals && n == most)) most = n, best = {pair.first, pair.second};
    }
    if (most < (kWrong == NeverEnds ? 1 : 2)) break;
    if (kWrong == FirstPair) best = {text[0], text[1]};
    const int32_t token = first_new + static_cast<int32_t>(kWrong == OneNumber ? 0 : merges.size());
    std::vector<int32_t> merged;
    if (kWrong == FromTheRight) std::reverse(text.begin(), text.end()), std::swap(best.left, best.right);
    for (size_t i = 0; i < text.size(); ++i) {
      const bool here = i + 1 < text.size() && text[i] == best.left && text[i + 1] == best.right;
      merged.push_back(here ? token : text[i]);
      if (here && kWrong != RightTokenStays) ++i;
    }
    if (kWrong == FromTheRight) std::reverse(merged.begin(), merged.end()), std::swap(best.left, best.right);
    if (kWrong != NotRewritten) text = merged;
    merges.push_back(best);
  }
  return merges;
}

const std::vector<Mistake<decltype(train_merges)>> kMistakes{
    {"first_pair", "TheMostFrequentPairIsMerged", "the first pair of the text", merges_of<Wrong::FirstPair>},
    {"largest_of_equals", "OfEqualPairsTheSmallestIsMerged", "the smaller is taken", merges_of<Wrong::LargestOfEquals>},
    {"not_rewritten", "TheTextIsRewritten", "still has the old tokens", merges_of<Wrong::NotRewritten>},
    {"right_token_stays", "TheTextIsRewritten", "both are replaced", merges_of<Wrong::RightTokenStays>},
    {"one_number", "TheTextIsRewritten", "the same number", merges_of<Wrong::OneNumber>},
    {"from_the_right", "PlacesAreReplacedFromTheLeft", "from the right", merges_of<Wrong::FromTheRight>},
    {"never_ends", "WithoutAPairThatRepeatsItEnds", "has to pay", merges_of<Wrong::NeverEnds>},
    {"size_minus_one", "AShortTextHasNoPairs", "A size_t has no numbers below 0", merges_of<Wrong::SizeMinusOne>},
};

}  // namespace

std::vector<Merge> train_merges(std::vector<int32_t> text, int32_t first_new, size_t n_merges) {
  return chosen(kMistakes, merges_of<Wrong::None>)(std::move(text), first_new, n_merges);
}

}  // namespace folio::exercises
