#include "infer/engine/prompt_lookup.h"

#include <algorithm>

namespace folio::infer {

// In a text that does not repeat itself, two tokens that were there before say little. What slid out of the context is
// not searched: a step's work does not grow with the text.
void PromptLookup::draft(std::span<const Text> texts) {
  for (const Text& text : texts) {
    const auto found = drafts(std::span(text.tokens).subspan(text.first), text.most, 2 + text.n_misses);
    text.tokens.insert(text.tokens.end(), found.begin(), found.end());
  }
}

std::vector<int32_t> PromptLookup::drafts(std::span<const int32_t> text, size_t most, size_t least) {
  for (size_t n = std::max<size_t>(least, 3); n >= least; --n) {
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

}  // namespace folio::infer
