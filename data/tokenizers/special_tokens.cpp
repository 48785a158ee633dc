#include "data/tokenizers/special_tokens.h"

#include <algorithm>
#include <utility>

namespace folio::data {

SpecialTokens::SpecialTokens(std::vector<SpecialToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const SpecialToken& token) { return token.text.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const SpecialToken& a, const SpecialToken& b) { return a.text < b.text; });
  const auto same_text = [](const SpecialToken& a, const SpecialToken& b) { return a.text == b.text; };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same_text), tokens_.end());
  for (const SpecialToken& token : tokens_) begins_[static_cast<unsigned char>(token.text[0])] = true;
}

int32_t SpecialTokens::id_of(std::string_view text) const {
  const SpecialToken* token = begin_of(text);
  return token != nullptr && token->text.size() == text.size() ? token->id : -1;
}

const SpecialToken* SpecialTokens::begin_of(std::string_view text) const {
  if (text.empty() || !begins_[static_cast<unsigned char>(text[0])]) return nullptr;
  const SpecialToken* longest = nullptr;
  auto first = tokens_.begin();
  auto last = tokens_.end();
  for (size_t n = 0; n < text.size() && first != last; ++n) {
    // All tokens in [first, last) are longer than n bytes and begin as `text`: keep those that match its next byte.
    const auto byte_of = [n](const SpecialToken& token) { return static_cast<unsigned char>(token.text[n]); };
    const auto byte = static_cast<unsigned char>(text[n]);
    first = std::partition_point(first, last, [&](const SpecialToken& token) { return byte_of(token) < byte; });
    last = std::partition_point(first, last, [&](const SpecialToken& token) { return byte_of(token) == byte; });
    if (first != last && first->text.size() == n + 1) longest = &*first++;
  }
  return longest;
}

}  // namespace folio::data
