// Laws of infer/forms/form.h: a token may come exactly if its bytes may come one by one.
#include "infer/forms/form.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/infer/engine/letter_tokenizer.h"

namespace folio::infer::forms {
namespace {

TEST(Form, ATokenMayComeIfItsBytesMay) {
  const infer::test::LetterTokenizer tokenizer;  // '0' to 'T'
  const auto tokens = std::make_shared<TokenTree>(tokenizer);
  Grammar grammar;
  const auto rule = grammar.declare();
  const auto digit = [&] { return grammar.bytes('0', '9'); };
  const std::array parts = {grammar.text("A"), grammar.repeat(digit, 2, 3), grammar.text("B")};
  grammar.define(rule, grammar.sequence(parts));
  grammar.finish(rule, tokens->bytes());
  Form form(std::move(grammar), tokens);
  EXPECT_EQ(form.forced(form.start()), 'A');
  for (const std::string_view text : {"", "A", "A1", "A12", "A123", "A12B"}) {
    const Form::Place place = form.after(form.start(), text);
    ASSERT_NE(place, Form::kNowhere) << text;
    std::vector<int32_t> allowed;
    for (const auto& [first, last] : form.allowed(place)) {
      for (uint32_t rank = first; rank < last; ++rank) allowed.push_back(tokens->tokens()[rank]);
    }
    std::vector<int32_t> expected;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      if (form.after(place, tokenizer.token_bytes(id)) != Form::kNowhere) expected.push_back(id);
    }
    EXPECT_EQ(allowed, expected) << text;
    EXPECT_EQ(form.may_end(place), text == "A12B") << text;
  }
  EXPECT_EQ(form.after(form.start(), "A1B"), Form::kNowhere);
}

}  // namespace
}  // namespace folio::infer::forms
