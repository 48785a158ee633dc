// Tests infer/forms/form.h and make_form: choices, errors, and limits on memory and steps. grammar_test.cpp compares
// masks with trying every token.
#include "infer/forms/form.h"

#include <gtest/gtest.h>

#include <utility>

#include "infer/forms/forms.h"
#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/forms/support.h"

namespace folio::infer::forms {
namespace {

FormOptions regex(std::string text) { return {.kind = FormOptions::Kind::Regex, .text = std::move(text)}; }
FormOptions gbnf(std::string text) { return {.kind = FormOptions::Kind::Grammar, .text = std::move(text)}; }
FormOptions choice(std::vector<std::string> texts) {
  return {.kind = FormOptions::Kind::Choice, .choices = std::move(texts)};
}

TEST(MakeForm, ChoiceAcceptsExactlyItsTexts) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    auto texts = test::random_texts(1 + random() % 20, "ab", 5, random);
    if (round % 2 == 0) texts.erase(texts.begin());  // removes the empty string
    const auto form = make_form(choice(texts), test::all_bytes());
    for (const std::string& text : test::random_texts(100, "ab", 6, random)) {
      ASSERT_EQ(test::takes(*form, text), std::ranges::find(texts, text) != texts.end()) << text;
    }
  }
  const auto only = make_form(choice({"yes"}), test::all_bytes());
  EXPECT_EQ(only->forced(only->start()), 'y');
}

// 20,000 choices with a common prefix must share its parse, since the number of parses of a state is limited.
TEST(MakeForm, ChoiceMayHaveThousandsOfTexts) {
  std::vector<std::string> texts;
  for (int i = 0; i < 20'000; ++i) texts.push_back("number " + std::to_string(i));
  const auto form = make_form(choice(texts), test::all_bytes());
  for (const std::string& text : texts) ASSERT_TRUE(test::takes(*form, text));
  EXPECT_FALSE(test::takes(*form, "number 20000"));
}

TEST(MakeForm, ErrorsLocateTheProblem) {
  const auto message = [](const FormOptions& options) {
    const auto tokens = std::make_shared<TokenTree>(infer::test::LetterTokenizer());
    return core::test::message_of([&] { static_cast<void>(make_form(options, tokens)); });
  };
  EXPECT_EQ(message(regex("A(B")), "regular expression: character 2: unmatched (");
  EXPECT_EQ(message(regex("[^\\s\\S]")), "regular expression: no output can match it");
  EXPECT_EQ(message(regex("A\\{B\\}")),
            "regular expression: the model's vocabulary cannot produce it: no token contains the byte 0x7b, \"{\"");
  EXPECT_EQ(message(regex("é")),
            "regular expression: the model's vocabulary cannot produce it: no token contains the byte 0xc3");
  EXPECT_EQ(message(regex("\\{|A")), "");
  EXPECT_EQ(message(gbnf("root ::= A")), "grammar: line 1: the rule A is not defined");
  EXPECT_EQ(message(gbnf("root ::= root")),
            "grammar: the rule root is left-recursive, which is not supported; use a repetition");
  EXPECT_EQ(message(choice({})), "choices: the list is empty");
  EXPECT_EQ(message(choice({"yes", "no"})),
            "choices: the model's vocabulary cannot produce it: no token contains the byte 0x6e, \"n\"");
}

// Nearly every string of over 100 letters leads to a different state of up to 201 parses, so that the states exceed the
// memory limit.
TEST(Form, EvictsStatesIfMemoryIsFull) {
  const auto form = make_form(regex("[ab]*a[ab]{200}"), test::all_bytes());
  std::mt19937 random(1);
  std::string text;
  Form::Place place = form->start();
  while (form->generation() < 3) {
    const char letter = random() % 2 == 0 ? 'a' : 'b';
    try {
      place = form->after(place, static_cast<uint8_t>(letter));
      text += letter;
    } catch (const CapacityExceeded& error) {
      EXPECT_STREQ(error.what(), "the parser states of the constrained output need more than 8192 KB");
      EXPECT_GT(form->n_places(), 2'000U);
      place = form->forget(place);
      EXPECT_EQ(form->n_places(), 2U);
    }
    ASSERT_EQ(form->may_end(place), text.size() > 200 && text[text.size() - 201] == 'a') << text.size() << " letters";
  }
  EXPECT_EQ(form->after(form->start(), "abc"), Form::kDead);
}

TEST(Form, RejectsVocabulariesWithHugeTokens) {
  EXPECT_EQ(core::test::message_of([] {
              static_cast<void>(test::tree_of({"a", std::string(4097, 'b')}));
            }),
            "the vocabulary has a token of 4097 bytes, but structured output needs tokens of at most 4096");
}

TEST(Form, ForgettingDoesNotCountTheStepsOfTheQueryBefore) {
  std::shared_ptr<Form> form;
  const auto fails = [&](size_t most_steps) {
    return !core::test::message_of([&] {
              const auto tokens = test::all_bytes();
              Grammar grammar;
              const Grammar::Rule rule = grammar.declare();
              grammar.define(rule, grammar.bytes('a', 'b'));
              grammar.finish(rule, tokens->bytes());
              form = std::make_shared<Form>(std::move(grammar), tokens, Form::kMostBytes, most_steps);
              static_cast<void>(form->allowed(form->start()));
            }).empty();
  };
  for (size_t most_steps = 1; fails(most_steps); ++most_steps) continue;  // ends with a form that has no steps left
  EXPECT_EQ(form->forget(form->start()), form->start());
}

}  // namespace
}  // namespace folio::infer::forms
