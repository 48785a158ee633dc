// The mistakes, each with the test that must fail first and words of its message:
//     all_tokens: ARequestGetsWhatIsMissing: not all 21
//     whole_prompts_only: ALongPromptIsCut: would never run
//     decode_or_prompt: ALongPromptIsCut: not always at its last token
//     below_zero: AllTogetherKeepTheLimit: in a size_t is a huge number
//     shortest_first: TheOldestComesFirst: came first
//     nobody_begins: OneThatWaitsBegins: Rows are left
//     no_limit: NoMoreRunThanMay: the third waits
//     counts_as_it_goes: ThoseThatRunCountWhereverTheyStand: count those that run
#include <algorithm>
#include <numeric>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

std::vector<size_t> plan(const std::vector<Request>& requests, size_t max_rows, size_t max_running) {
  const auto missing = [&](size_t i) {
    if (wrong("decode_or_prompt") && requests[i].n_computed > 0) return size_t{1};
    return requests[i].n_tokens - (wrong("all_tokens") ? 0 : requests[i].n_computed);
  };
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0U);
  if (wrong("shortest_first")) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return missing(a) < missing(b); });
  }
  size_t n_running = 0;
  for (const Request& r : requests) n_running += !wrong("counts_as_it_goes") && r.n_computed > 0 ? 1 : 0;
  std::vector<size_t> rows(requests.size(), 0);
  size_t left = max_rows;
  const bool never = wrong("nobody_begins") && requests.front().n_computed > 0;
  for (const size_t i : order) {
    if (requests[i].n_computed == 0) {
      if (never || left == 0 || (n_running >= max_running && !wrong("no_limit"))) continue;
      ++n_running;
    } else if (wrong("counts_as_it_goes")) {
      ++n_running;
    }
    if (wrong("whole_prompts_only") && missing(i) > left && requests[i].n_computed == 0) continue;
    rows[i] = wrong("below_zero") && missing(i) == 1 ? 1 : std::min(left, missing(i));
    left -= rows[i];
  }
  return rows;
}

}  // namespace folio::exercises
