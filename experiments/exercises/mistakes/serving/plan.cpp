#include <algorithm>
#include <numeric>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class Wrong { None, AllTokens, WholePromptsOnly, BelowZero, ShortestFirst, NobodyBegins, NoLimit, CountsAsItGoes };

template <Wrong kWrong>
std::vector<size_t> planned(const std::vector<Request>& requests, size_t max_rows, size_t max_running) {
  using enum Wrong;
  const auto missing = [&](size_t i) {
    return requests[i].n_tokens - (kWrong == AllTokens ? 0 : requests[i].n_computed);
  };
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0U);
  if (kWrong == ShortestFirst) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return missing(a) < missing(b); });
  }
  size_t n_running = 0;
  for (const Request& r : requests) n_running += kWrong != CountsAsItGoes && r.n_computed > 0 ? 1 : 0;
  std::vector<size_t> rows(requests.size(), 0);
  size_t left = max_rows;
  const bool never = kWrong == NobodyBegins && requests.front().n_computed > 0;
  for (const size_t i : order) {
    if (requests[i].n_computed == 0) {
      if (never || left == 0 || (n_running >= max_running && kWrong != NoLimit)) continue;
      ++n_running;
    } else if (kWrong == CountsAsItGoes) {
      ++n_running;
    }
    if (kWrong == WholePromptsOnly && missing(i) > left && requests[i].n_computed == 0) continue;
    rows[i] = kWrong == BelowZero && missing(i) == 1 ? 1 : std::min(left, missing(i));
    left -= rows[i];
  }
  return rows;
}

const std::vector<Mistake<decltype(plan)>> kMistakes{
    {"all_tokens", "ARequestGetsWhatIsMissing", "not all 21", planned<Wrong::AllTokens>},
    {"whole_prompts_only", "ALongPromptIsCut", "would never run", planned<Wrong::WholePromptsOnly>},
    {"below_zero", "AllTogetherKeepTheLimit", "in a size_t is a huge number", planned<Wrong::BelowZero>},
    {"shortest_first", "TheOldestComesFirst", "came first", planned<Wrong::ShortestFirst>},
    {"nobody_begins", "OneThatWaitsBegins", "Rows are left", planned<Wrong::NobodyBegins>},
    {"no_limit", "NoMoreRunThanMay", "the third waits", planned<Wrong::NoLimit>},
    {"counts_as_it_goes", "ThoseThatRunCountWhereverTheyStand", "count those that run", planned<Wrong::CountsAsItGoes>},
};

}  // namespace

std::vector<size_t> plan(const std::vector<Request>& requests, size_t max_rows, size_t max_running) {
  return chosen(kMistakes, planned<Wrong::None>)(requests, max_rows, max_running);
}

}  // namespace folio::exercises
