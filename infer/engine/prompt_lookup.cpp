#include "infer/engine/prompt_lookup.h"

#include <algorithm>

namespace folio::infer {

// After each step without a correct draft, a longer match is required, since short matches predict little in a text
// without repetition. Only tokens in the context are searched, which bounds the work of a step.
void PromptLookup::draft(std::span<const Input> inputs) {
  for (const Input& input : inputs) {
    const auto found = drafts(std::span(input.tokens).subspan(input.first), input.most, 2 + input.n_misses);
    input.tokens.insert(input.tokens.end(), found.begin(), found.end());
  }
}

std::vector<int32_t> PromptLookup::drafts(std::span<const int32_t> text, size_t most, size_t least) {
  for (size_t n = std::max<size_t>(least, 3); n >= least; --n) {
    if (text.size() <= n) continue;
    const auto last = text.last(n);
    for (size_t end = text.size() - 1; end >= n; --end) {  // compares text[end - n, end) with `last`
      if (text[end - 1] != last.back()) continue;          // rejects most positions before the full comparison
      if (!std::equal(last.begin(), last.end(), text.begin() + static_cast<std::ptrdiff_t>(end - n))) continue;
      std::vector<int32_t> drafts(most);
      for (size_t i = 0; i < most; ++i) drafts[i] = text[end + i % (text.size() - end)];
      return drafts;
    }
  }
  return {};
}

}  // namespace folio::infer
