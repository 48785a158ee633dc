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
  for (size_t i = 0; i < tokens_.size(); ++i) {
    begins_[static_cast<unsigned char>(tokens_[i].text[0])] = true;
    by_id_.emplace(tokens_[i].id, i);
  }
}

int32_t SpecialTokens::id_of(std::string_view text) const {
  const SpecialToken* token = begin_of(text);
  return token != nullptr && token->text.size() == text.size() ? token->id : -1;
}

const SpecialToken* SpecialTokens::token_of(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const SpecialToken* SpecialTokens::begin_of(std::string_view text, size_t longest_special) const {
  if (text.empty() || !begins_[static_cast<unsigned char>(text[0])]) return nullptr;
  const SpecialToken* longest = nullptr;
  auto first = tokens_.begin();
  auto last = tokens_.end();
  for (size_t n = 0; n < text.size() && first != last; ++n) {
    // All tokens in [first, last) are longer than n bytes and match so far: keep those that match the next byte.
    const auto byte_of = [n](const SpecialToken& token) { return static_cast<unsigned char>(token.text[n]); };
    const auto byte = static_cast<unsigned char>(text[n]);
    first = std::partition_point(first, last, [&](const SpecialToken& token) { return byte_of(token) < byte; });
    last = std::partition_point(first, last, [&](const SpecialToken& token) { return byte_of(token) == byte; });
    if (first == last || first->text.size() > n + 1) continue;
    if (!first->is_special || n < longest_special) longest = &*first;
    ++first;
  }
  return longest;
}

}  // namespace folio::data
