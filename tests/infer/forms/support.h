// Helpers for tests of forms (output constraints): vocabularies, and masks that are computed by trying every token.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "infer/forms/form.h"
#include "tests/core/support.h"
#include "tests/infer/engine/letter_tokenizer.h"

namespace folio::infer::forms::test {

/// A tokenizer with the given strings as tokens, the first of which is the end token. Can't encode.
class ListTokenizer final : public infer::test::MadeTokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> texts) : MadeTokenizer(std::move(texts), {}) {}
  [[nodiscard]] int32_t end_of_text() const override { return 0; }
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

/// A function that adds the parts of a constraint to a grammar and returns the root part.
using Build = std::function<Grammar::Part(Grammar&)>;

/// Returns the form with the constraint that build() adds, for outputs of `tokens`.
inline std::shared_ptr<Form> form_of(std::shared_ptr<const TokenTree> tokens, const Build& build,
                                     size_t most_bytes = Form::kMostBytes) {
  Grammar grammar({.longest_token = tokens->longest()});
  const auto rule = grammar.declare();
  grammar.define(rule, build(grammar));
  grammar.finish(rule, tokens->bytes());
  return std::make_shared<Form>(std::move(grammar), std::move(tokens), most_bytes);
}
inline std::shared_ptr<Form> form_of(const data::Tokenizer& tokenizer, const Build& build,
                                     size_t most_bytes = Form::kMostBytes) {
  return form_of(std::make_shared<TokenTree>(tokenizer), build, most_bytes);
}

/// Returns an empty string, then `n` random strings of 1 to `longest` bytes from `bytes`, possibly with duplicates.
inline std::vector<std::string> random_texts(size_t n, std::string_view bytes, size_t longest, std::mt19937& random) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < n; ++i) {
    std::string text(1 + random() % longest, ' ');
    for (char& c : text) c = bytes[random() % bytes.size()];
    texts.push_back(text);
  }
  return texts;
}

/// Returns the sorted ids of the tokens that the form's mask allows in state `place`.
inline std::vector<int32_t> allowed_ids(Form& form, Form::Place place) {
  std::vector<int32_t> ids;
  for (const auto& [first, last] : form.allowed(place)) {
    for (uint32_t rank = first; rank < last; ++rank) ids.push_back(form.tokens().tokens()[rank]);
  }
  std::ranges::sort(ids);
  return ids;
}

/// Returns the sorted ids of the tokens whose bytes the form accepts in state `place`. allowed_ids() must be the same.
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

/// The source of an output constraint (regex, grammar or schema), and texts that it must accept or reject (`others`).
struct Case {
  std::string_view source;
  std::vector<std::string> texts;
  std::vector<std::string> others;
};

/// Expects form_of(source) of each case to accept all of its `texts` and to reject all of its `others`.
template <typename FormOf>
void expect_texts(const std::vector<Case>& cases, FormOf&& form_of) {
  for (const Case& c : cases) {
    const std::shared_ptr<Form> form = form_of(c.source);
    for (const std::string& text : c.texts) EXPECT_TRUE(takes(*form, text)) << c.source << ": " << text;
    for (const std::string& text : c.others) EXPECT_FALSE(takes(*form, text)) << c.source << ": " << text;
  }
}

}  // namespace folio::infer::forms::test
