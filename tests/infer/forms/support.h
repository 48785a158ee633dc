// Helpers for tests of forms: vocabularies, and the expected mask of a form's state, found by trying every token.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "infer/forms/form.h"

namespace folio::infer::forms::test {

/// A tokenizer with the given strings as tokens. Can't encode.
class ListTokenizer final : public data::Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> texts) : texts_(std::move(texts)) {}
  [[nodiscard]] std::vector<int32_t> encode(std::string_view) const override { return {}; }
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override { return texts_.at(static_cast<size_t>(id)); }
  [[nodiscard]] int32_t vocab_size() const override { return static_cast<int32_t>(texts_.size()); }
  [[nodiscard]] int32_t end_of_text() const override { return 0; }
  [[nodiscard]] std::vector<int32_t> suppressed_tokens() const override { return {}; }
  [[nodiscard]] std::vector<int32_t> default_prompt() const override { return {0}; }
  [[nodiscard]] std::string kind() const override { return "list"; }

 private:
  std::vector<std::string> texts_;
};

inline std::shared_ptr<const TokenTree> tree_of(std::vector<std::string> texts) {
  return std::make_shared<TokenTree>(ListTokenizer(std::move(texts)));
}

/// Returns a vocabulary with one token for each byte.
inline std::shared_ptr<const TokenTree> all_bytes() {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  return tree_of(std::move(texts));
}

/// Returns an empty string and `n` random strings of 1 to `longest` of these bytes, possibly with duplicates.
inline std::vector<std::string> random_texts(size_t n, std::string_view bytes, size_t longest, std::mt19937& random) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < n; ++i) {
    std::string text(1 + random() % longest, ' ');
    for (char& c : text) c = bytes[random() % bytes.size()];
    texts.push_back(text);
  }
  return texts;
}

/// Returns the sorted ids of the tokens in the mask of a form's state.
inline std::vector<int32_t> allowed_ids(Form& form, Form::Place place) {
  std::vector<int32_t> ids;
  for (const auto& [first, last] : form.allowed(place)) {
    for (uint32_t rank = first; rank < last; ++rank) ids.push_back(form.tokens().tokens()[rank]);
  }
  std::ranges::sort(ids);
  return ids;
}

/// Returns the sorted ids of the tokens whose bytes fit one after another in this state: the expected mask.
inline std::vector<int32_t> tried_ids(Form& form, Form::Place place, const data::Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string& bytes = tokenizer.token_bytes(id);
    if (!bytes.empty() && form.after(place, bytes) != Form::kDead) ids.push_back(id);
  }
  return ids;
}

/// Returns true if the form accepts `text` as a complete output.
inline bool takes(Form& form, std::string_view text) {
  const Form::Place place = form.after(form.start(), text);
  return place != Form::kDead && form.may_end(place);
}

}  // namespace folio::infer::forms::test
