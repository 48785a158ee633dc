// Tests GBNF grammars: which strings they accept and reject, and the errors for invalid or unsupported grammars.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "infer/forms/forms.h"
#include "tests/infer/forms/support.h"

namespace folio::infer::forms {
namespace {

std::shared_ptr<Form> gbnf_form(std::string_view text) {
  return test::form_of(test::all_bytes(), [&](Grammar& grammar) { return gbnf_part(grammar, text); });
}

std::string gbnf_refusal(std::string_view text) {
  return core::test::message_of([&] { static_cast<void>(gbnf_form(text)); });
}

TEST(Gbnf, ItsTextsAreThoseOfRoot) {
  const std::vector<test::Case> cases{
      {"# a comment\n\nroot::=word(\" \" word)*  # words\nword ::= [a-z]+\n", {"a", "ab c"}, {"", "a ", " a"}},
      {"root ::= item{ 0 , 2 } end\r\nitem ::= \"ab\" ?\r\nend ::= \".\"", {".", "ab.", "abab."}, {"ababab.", "a."}},
      {"root ::= (\n  \"a\" # first\n  | \"b\"\n)\n", {"a", "b"}, {"ab"}},
      {"root ::= \"a\" |\n  \"b\"\nother ::= \"c\"", {"a", "b"}, {"c"}},
      {"root ::=\n  \"a\"\n", {"a"}, {""}},
      {"root ::= | \"a\" root", {"", "a", "aaa"}, {"b"}},
      {"root ::= \"(\" root \")\" | \"x\"", {"x", "((x))"}, {"((x)", "()"}},
      {"root ::= \"\\x41\\u00e9\\U0001F600\\n\\t\\r\\\\\\\"\\[\\]\\-\"", {"Aé😀\n\t\r\\\"[]-"}, {"A"}},
      {"root ::= [^\\n\"] [\\]x] [a\\-c] [+-]", {"a]-+", "éxc-"}, {"\n]-+", "axb+"}},
      {"root ::= a-b_C1\na-b_C1 ::= \"x\"", {"x"}, {""}},
  };
  test::expect_texts(cases, gbnf_form);
}

TEST(Gbnf, RejectsUnsupportedSyntaxByName) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases{
      {"", "the rule \"root\" is missing; it defines the whole output"},
      {"start ::= \"a\"", "the rule \"root\" is missing; it defines the whole output"},
      {"root ::= \"a\"\n  other", "line 2: expected ::= after other, found \"\""},
      {"root ::= a |\n  b\na ::= \"x\"", "line 2: the rule b is not defined"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2: the rule root is defined twice"},
      {"root ::= root \"a\" | \"a\"", "the rule root is left-recursive, which is not supported; use a repetition"},
      {"root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a | \"y\"",
       "the rule a is left-recursive, which is not supported; use a repetition"},
      {"root ::= \"a\" root", "no output can match it"},
      {"root ::= <think> \"a\"", "line 1: tokens (<name>, <[id]>) are not supported; write their text"},
      {"root ::= !<[5]>", "line 1: tokens (<name>, <[id]>) are not supported; write their text"},
      {"root ::= \"a", "line 1: unterminated string literal"},
      {"root ::= \"\\q\"", "line 1: unknown escape \\q"},
      {"root ::= \"\\u12\"", "line 1: invalid escape, expected \\xHH, \\uHHHH or \\UHHHHHHHH"},
      {"root ::= \"\\U00110000\"", "line 1: invalid Unicode code point"},
      {"root ::= [a", "line 1: unmatched ["},
      {"root ::= []", "line 1: empty character class; write \\] for a literal ]"},
      {"root ::= [z-a]", "line 1: invalid character range, the end precedes the start"},
      {"root ::= (\"a\"\n", "line 2: unmatched ("},
      {"root ::= \"a\")", "line 1: unexpected \")\""},
      {"root ::= * \"a\"", "line 1: unexpected \"* \"a\"\""},
      {"root ::= \"a\"**", "line 1: invalid nested repetition; put the inner one in ( )"},
      {"root ::= \"a\"{,3}", "line 1: invalid repetition, expected {m}, {m,} or {m,n}"},
      {"root ::= \"a\"{3", "line 1: invalid repetition, expected {m}, {m,} or {m,n}"},
      {"root ::= \"a\"{3,2}", "line 1: invalid repetition, the minimum exceeds the maximum"},
      {"root ::= \"a\"{100001}", "line 1: the repetition count exceeds 100000"},
      {"= \"a\"", "line 1: expected a rule name, found \"= \"a\"\""},
      {"root ::= \"\xFF\"", "line 1: invalid UTF-8"},
  };
  for (const auto& [grammar, message] : cases) EXPECT_EQ(gbnf_refusal(grammar), message) << grammar;
  EXPECT_EQ(gbnf_refusal("root ::= " + std::string(300, '(') + "\"a\"" + std::string(300, ')')),
            "line 1: groups are nested more than 200 levels deep");
}

}  // namespace
}  // namespace folio::infer::forms
