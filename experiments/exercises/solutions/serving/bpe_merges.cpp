#include <map>
#include <utility>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

std::vector<Merge> train_merges(std::vector<int32_t> text, int32_t first_new, size_t n_merges) {
  std::vector<Merge> merges;
  while (merges.size() < n_merges) {
    std::map<std::pair<int32_t, int32_t>, size_t> count;
    for (size_t i = 1; i < text.size(); ++i) ++count[{text[i - 1], text[i]}];
    size_t most = 1;
    Merge best{};
    for (const auto& [pair, n] : count) {
      if (n > most) most = n, best = {pair.first, pair.second};
    }
    if (most < 2) break;
    const int32_t token = first_new + static_cast<int32_t>(merges.size());
    std::vector<int32_t> merged;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool here = i + 1 < text.size() && text[i] == best.left && text[i + 1] == best.right;
      merged.push_back(here ? token : text[i]);
      if (here) ++i;
    }
    text = merged;
    merges.push_back(best);
  }
  return merges;
}

}  // namespace folio::exercises
