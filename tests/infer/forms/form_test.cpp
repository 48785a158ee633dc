// Tests infer/forms/form.h and make_form: a mask allows a token if and only if the token's bytes fit one after another.
#include "infer/forms/form.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <utility>

#include "core/error.h"
#include "infer/forms/forms.h"
#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/forms/support.h"

namespace folio::infer::forms {
namespace {

// Tests a repetition whose copies all call the same rule, which is defined only while repeat() builds the first copy.
TEST(Form, MasksAreCorrectInsideRepeatedRules) {
  const test::ListTokenizer tokenizer({"a", "b", "ab", "aab", "."});
  const auto tokens = std::make_shared<TokenTree>(tokenizer);
  for (const auto& [least, most] : {std::pair{0, 20}, {20, -1}, {20, 40}, {20, 20}}) {
    Grammar grammar({.longest_token = tokens->longest()});
    const auto rule = grammar.declare();
    std::optional<Grammar::Rule> letter;
    const auto one = [&] {
      if (!letter) {
        letter = grammar.declare();
        grammar.define(*letter, grammar.bytes('a', 'b'));
      }
      return grammar.call(*letter);
    };
    grammar.define(rule, grammar.sequence(std::array{grammar.repeat(one, least, most), grammar.text(".")}));
    grammar.finish(rule, tokens->bytes());
    Form form(std::move(grammar), tokens);
    Form::Place place = form.start();
    for (int n = 0; n < 50 && place != Form::kDead; ++n, place = form.after(place, 'a')) {
      EXPECT_EQ(test::allowed_ids(form, place), test::tried_ids(form, place, tokenizer)) << least << " " << n;
    }
  }
}

// A node's range of tokens has exactly those that begin with the node's bytes, and each token occurs once in the tree.
TEST(TokenTree, ContainsEachTokenOnce) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const test::ListTokenizer tokenizer(test::random_texts(1 + random() % 60, "ab\xFF", 1 + random() % 5, random));
    const TokenTree tree(tokenizer);
    std::vector<int32_t> reached;
    std::vector<std::string> way;  // bytes on the way to each ancestor
    std::vector<uint32_t> ends;    // the node after each ancestor's subtree
    for (uint32_t n = 0; n < tree.nodes().size(); ++n) {
      const TokenTree::Node& node = tree.nodes()[n];
      while (!ends.empty() && ends.back() <= n) {
        ends.pop_back();
        way.pop_back();
      }
      way.push_back((way.empty() ? "" : way.back()) + static_cast<char>(node.byte));
      ends.push_back(node.next);
      for (uint32_t rank = node.first; rank < node.last; ++rank) {
        const std::string& bytes = tokenizer.token_bytes(tree.tokens()[rank]);
        ASSERT_TRUE(bytes.starts_with(way.back()));
        ASSERT_EQ(bytes == way.back(), rank < node.own);
        for (const char c : bytes.substr(way.back().size())) {
          ASSERT_TRUE(node.bytes_below[static_cast<uint8_t>(c)]);
        }
        if (rank < node.own) reached.push_back(tree.tokens()[rank]);
      }
    }
    std::ranges::sort(reached);
    std::vector<int32_t> all;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      if (!tokenizer.token_bytes(id).empty()) all.push_back(id);
    }
    ASSERT_EQ(reached, all);
  }
}

FormOptions regex(std::string text) { return {.kind = FormOptions::Kind::Regex, .text = std::move(text)}; }
FormOptions gbnf(std::string text) { return {.kind = FormOptions::Kind::Grammar, .text = std::move(text)}; }
FormOptions choice(std::vector<std::string> texts) {
  return {.kind = FormOptions::Kind::Choice, .choices = std::move(texts)};
}

// The tokens are all strings of up to five letters a, b or c. A mask adds a whole subtree of tokens if all its letters
// are allowed in any order, for at least the length of its tokens. Other subtrees must be visited.
TEST(Form, MasksMatchForRunsOfAnyLength) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; texts[i].size() < 5; ++i) {
    for (const char letter : {'a', 'b', 'c'}) texts.push_back(texts[i] + letter);
  }
  const test::ListTokenizer tokenizer(texts);
  const auto tokens = std::make_shared<TokenTree>(tokenizer);
  for (const char* text : {"[ab]{0,7}c", "([ab]*b)?c", "[ab]*a[ab]{2}", "[abc]*abc[abc]*", "[ab]*(c[ab]*){0,2}",
                           "(a[abc]{2,6}|b{3}[ab]*)c", "(ab|ba)*c?", "[abc]{6}|[ab]{9}", "(a[ab]|b[abc]|c[ab]){2,4}",
                           "([ab]{3}[abc])*", "(a+b+c+)*"}) {
    const auto form = make_form(regex(text), tokens);
    for (const std::string& begin : texts) {
      for (const std::string_view more : {"", "aa", "bcb", "abab"}) {
        const Form::Place place = form->after(form->start(), begin + std::string(more));
        if (place == Form::kDead) continue;
        ASSERT_EQ(test::allowed_ids(*form, place), test::tried_ids(*form, place, tokenizer)) << text << ", " << begin;
      }
    }
  }
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
  EXPECT_FALSE(test::takes(*only, ""));
  EXPECT_TRUE(test::takes(*make_form(choice({"", "a"}), test::all_bytes()), ""));
}

// A state can't have 20,000 parses, so the common prefixes of choices must be parsed once.
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
    return test::refusal([&] { static_cast<void>(make_form(options, tokens)); });
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

// A string of over a hundred letters has its own state, with up to 201 parses, so states fill the memory.
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

}  // namespace
}  // namespace folio::infer::forms
