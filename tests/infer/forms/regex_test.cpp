// Tests regular expressions: the strings they match, and the errors. regex_oracle_test.py compares with Python's re.
#include "infer/forms/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "infer/forms/forms.h"
#include "tests/infer/forms/support.h"

namespace folio::infer::forms {
namespace {

std::shared_ptr<Form> regex_form(std::string_view expression, RegexMatch match = RegexMatch::Whole,
                                 RegexDialect dialect = RegexDialect::Re2) {
  return test::form_of(test::all_bytes(), [&](Grammar& grammar) {
    return build(grammar, parse_regex(expression, match, dialect),
                 called(grammar, [&](auto ranges) { return grammar.characters(ranges); }));
  });
}

std::string regex_refusal(std::string_view expression) {
  return core::test::message_of([&] { static_cast<void>(parse_regex(expression)); });
}

using test::Case;
using test::expect_texts;

TEST(Regex, ItsTextsAreThoseThatFullyMatch) {
  const std::vector<Case> cases{
      {"", {""}, {"a"}},
      {"a|b|", {"", "a", "b"}, {"ab"}},
      {"(?:a)(?P<x>b)(?<y_1>c)", {"abc"}, {"ab"}},
      {"a*?b+?c??", {"b", "aabbc"}, {"", "ac"}},
      {"a{,", {"a{,"}, {"a"}},
      {"a{}{x}", {"a{}{x}"}, {"a"}},
      {".",
       {"a", "\r", "é", "日", "😀"},
       {"", "\n", "ab", "\xC3", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}},
      {"[]a]", {"]", "a"}, {"b"}},
      {"[^]a]", {"b"}, {"]", "a"}},
      {"[-a]", {"a", "-"}, {"b"}},
      {"[+--]", {"+", ",", "-"}, {"."}},
      {"[[:alpha:][:^digit:]_]", {"a", "_", "-"}, {"1"}},
      {"\\s", {" ", "\t", "\n", "\f", "\r"}, {"\v", "\xC2\xA0"}},
      {"\\S", {"\v", "a"}, {" "}},
      {"\\x41\\x{1F600}\\u00e9\\n\\t\\.\\/\\-", {"A😀é\n\t./-"}, {"A"}},
      {"\\Aabc\\z", {"abc"}, {"ab"}},
      {"(^a|b)(c|d$)", {"ac", "bd"}, {"a"}},
      {"^^a$$", {"a"}, {"aa"}},
      {"^(?:^a|(b$|c))$", {"a", "b", "c"}, {"aa", ""}},
      {"()*()+x", {"x"}, {""}},
      {"a]}", {"a]}"}, {"a"}},
  };
  expect_texts(cases, [](std::string_view source) { return regex_form(source); });
}

TEST(Regex, RejectsUnsupportedSyntaxByName) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases{
      {"a(?=b)", "character 2: look-ahead is not supported"},
      {"a(?!b)", "character 2: look-ahead is not supported"},
      {"(?<=a)b", "character 1: look-behind is not supported"},
      {"(?<!a)b", "character 1: look-behind is not supported"},
      {"(a)\\1", "character 4: backreferences are not supported"},
      {"(?P<n>a)(?P=n)", "character 9: backreferences are not supported"},
      {"é\\b", "character 2: word boundaries (\\b) are not supported"},
      {"\\B", "character 1: word boundaries (\\B) are not supported"},
      {"(?i)a", "character 1: flags and groups other than (...), (?:...) and (?P<name>...) are not supported"},
      {"a\\p{Greek}",
       "character 2: Unicode class \"Greek\" is not supported; only general categories except C and Cn are"},
      {"\\pC", "character 1: Unicode class \"C\" is not supported; only general categories except C and Cn are"},
      {"\\p{sc=Grek}", "character 1: only Unicode general categories are supported, such as \\p{Lu}"},
      {"\\Z", "character 1: \\Z is not supported here"},
      {"[\\z]", "character 2: \\z is not supported here"},
      {"\\C", "character 1: \\C is not supported here"},
      {"a++", "character 3: possessive quantifiers are not supported"},
      {"a**", "character 3: invalid nested repetition; put the inner one in ( )"},
      {"a*{2}", "character 3: invalid nested repetition; put the inner one in ( )"},
      {"*a", "character 1: nothing to repeat"},
      {"(+a)", "character 2: nothing to repeat"},
      {"a|{2}", "character 3: nothing to repeat"},
      {"a{1001}", "character 2: the repetition count exceeds 1000"},
      {"a{99999999999999999999}", "character 2: the repetition count exceeds 1000"},
      {"a{3,2}", "character 2: invalid repetition, the minimum exceeds the maximum"},
      {"a{,5}", "character 2: regex engines differ on {,n}; write {0,n}, or \\{ for a literal {"},
      {"a(b", "character 2: unmatched ("},
      {"ab)", "character 3: unmatched )"},
      {"[ab", "character 1: unmatched ["},
      {"[a-", "character 1: unmatched ["},
      {"[z-a]", "character 2: invalid character range, the end precedes the start"},
      {"[\\d-z]", "character 2: invalid character range, both ends must be one character; write \\- for a literal -"},
      {"[[:nothing:]]", "character 2: unknown character class; write \\[ for a literal ["},
      {"\\", "character 1: trailing backslash"},
      {"\\x4", "character 1: invalid escape, expected \\xHH, \\x{H...} or \\uHHHH"},
      {"\\x{110000}", "character 1: invalid Unicode code point"},
      {"\\ud800", "character 1: invalid Unicode code point"},
      {"a^b", "character 2: ^ is only supported at the beginning; write \\^ for a literal ^"},
      {"a$b", "character 2: $ is only supported at the end; write \\$ for a literal $"},
      {"(^a)*", "character 2: ^ is only supported at the beginning; write \\^ for a literal ^"},
      {"a\xFF", "character 2: invalid UTF-8"},
  };
  for (const auto& [expression, message] : cases) EXPECT_EQ(regex_refusal(expression), message) << expression;
  EXPECT_EQ(regex_refusal(std::string(300, '(') + std::string(300, ')')),
            "character 201: groups are nested more than 200 levels deep");
  EXPECT_EQ(regex_refusal(std::string(70'000, 'a')), "has 70000 bytes, but at most 65536 are allowed");
}

TEST(Regex, UnicodeClassesAreGeneralCategories) {
  const std::vector<Case> cases{
      {"\\p{Lu}", {"A", "É", "Ω", "\xF0\x9D\x90\x80"}, {"a", "1", "日"}},
      {"\\pL", {"a", "日", "ª"}, {"1", "_", "€"}},
      {"\\PN", {"a", "\xCD\xB8"}, {"1", "٣", "Ⅷ"}},  // U+0378 is unassigned
      {"[\\p{Sc}\\P{Any}x]", {"$", "€", "x"}, {"a"}},
      {"[^\\PL]", {"a", "é"}, {"1"}},
      {"\\p{L}{2,1000}", {"ab", "日本語"}, {"a", "a1"}},
      {"\\p{Lowercase_Letter}", {"a", "é"}, {"A"}},
  };
  expect_texts(cases, [](std::string_view source) { return regex_form(source); });
}

TEST(Regex, SchemaPatternsFollowEcmaScript) {
  const std::vector<Case> cases{
      {"^\\s$", {" ", "\v", "\xC2\xA0", "\xEF\xBB\xBF"}, {"a"}},
      {"^\\S$", {"a", "\xC2\x85"}, {"\v", "\xC2\xA0", "\xEF\xBB\xBF"}},
      {"^.$", {"a"}, {"\n", "\r", "\xE2\x80\xA8"}},
      {"^\\cJ\\u{1F600}\\ud83d\\ude00\\0$", {std::string("\n😀😀\0", 10)}, {}},
      {"^\\p{Letter}+$", {"aé"}, {"a1"}},
      {"^[\\b-\\n]$", {"\b", "\t"}, {"b"}},
  };
  expect_texts(cases,
               [](std::string_view source) { return regex_form(source, RegexMatch::Search, RegexDialect::Ecma); });
  for (const char* expression :
       {"\\Aa", "a\\z", "\\a", "[[:alpha:]]", "[]a]", "[^]a]", "\\x{41}", "\\01", "\\c1", "\\pL"}) {
    EXPECT_THROW((void)parse_regex(expression, RegexMatch::Search, RegexDialect::Ecma), core::Error) << expression;
  }
}

// These patterns are rejected before their states are built.
TEST(Regex, RejectsPatternsWithTooManyStates) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases{
      {"(a{1000}){1000}", "needs more than 200000 states"},
      {"(((a?){1000}){1000}){1000}", "needs more than 200000 states"},
      {"(a*[acegikmo]{1000}){70}", "needs more than 600000 edges"},
      {"(.?.?.?.?.?.?){1000}", "the constrained output has more than 4096 possible parses"},
  };
  for (const auto& [expression, message] : cases) {
    const std::string error = core::test::error_of([&] { static_cast<void>(regex_form(expression)); });
    EXPECT_TRUE(error.starts_with(message)) << expression << ": " << error;
  }
}

}  // namespace
}  // namespace folio::infer::forms
