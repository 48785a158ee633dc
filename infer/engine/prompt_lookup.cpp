#include "infer/engine/prompt_lookup.h"

#include <algorithm>

namespace folio::infer {

std::vector<int32_t> PromptLookup::drafts(std::span<const int32_t> text, size_t most) const {
  for (size_t n = 3; n >= 2; --n) {
    if (text.size() <= n) continue;
    const auto last = text.last(n);
    for (size_t end = text.size() - 1; end >= n; --end) {  // what ends there begins with text[end - n]
      if (!std::equal(last.begin(), last.end(), text.begin() + static_cast<std::ptrdiff_t>(end - n))) continue;
      std::vector<int32_t> drafts(most);
      for (size_t i = 0; i < most; ++i) drafts[i] = text[end + i % (text.size() - end)];
      return drafts;
    }
  }
  return {};
}

// Twice as many after a step in which all were right, no more than were right plus one after others. Where nothing is
// ever right, a try comes ever more seldom: after 1, 2, 4, … up to 32 steps.
void PromptLookup::learn(size_t n_drafts, size_t n_right) {
  if (n_drafts == 0) {
    pause_ -= pause_ > 0 ? 1 : 0;
    return;
  }
  n_ = std::min(most_, n_right == n_drafts ? 2 * n_ : n_right + 1);
  misses_ = n_right > 0 ? 0 : std::min<size_t>(misses_ + 1, 6);
  if (misses_ > 0) pause_ = size_t{1} << (misses_ - 1);
}

}  // namespace folio::infer
