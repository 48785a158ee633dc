// Tests of token_mask: tokens of several bytes, the end token, empty tokens, and equality with a search of all strings.
#include <algorithm>

#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/properties/serving/slow_match.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

using Texts = std::vector<std::string>;

// Expects token_mask(rest) to allow exactly the tokens in `expected`. Appends an end token, "</s>", whose mask is
// checked only if `about_the_end` is true.
void expect_mask(const std::string& rest, Texts tokens, const Texts& expected, const std::string& why,
                 bool about_the_end = false) {
  tokens.emplace_back("</s>");
  tokens.shrink_to_fit();
  const std::vector<bool> mask = token_mask(read_regex(rest), tokens, tokens.size() - 1);
  ASSERT_EQ(mask.size(), tokens.size()) << "The mask has an entry for each token.";
  for (size_t t = 0; t + (about_the_end ? 0 : 1) < tokens.size(); ++t) {
    const bool may_come = std::find(expected.begin(), expected.end(), tokens[t]) != expected.end();
    if (mask[t] == may_come) continue;
    ADD_FAILURE() << "Where \"" << rest << "\" is left, token " << t << ", \"" << tokens[t] << "\", "
                  << (may_come ? "may come, but the mask says no." : "may not come, but the mask says yes.") << "\n"
                  << why;
    return;
  }
}

TEST(TokenMask, ATokenMayEndInTheMiddle) {
  for (const std::string token : {"cat", "ca", "c"}) {
    expect_mask("cat", {token}, {token},
                "A token need not be the whole rest of the text: a beginning will do, the next token goes on.");
  }
}

TEST(TokenMask, EachTokenBeginsAnew) {
  expect_mask("cat", {"c", "at", "c", "ca"}, {"c", "ca"},
              "Every token is asked for at the same place: none of them goes on where the one before it ended.");
}

TEST(TokenMask, EveryByteIsRead) {
  expect_mask("cat", {"cow", "cap"}, {}, "All bytes of a token count, in their order, and not the first alone.");
}

TEST(TokenMask, NothingComesBehindTheEnd) {
  expect_mask("cat", {"cats", "cat"}, {"cat"},
              "The token has bytes behind the text's end. That the text may end in its middle is not enough.");
}

TEST(TokenMask, TheEndComesWhereTheTextMayEnd) {
  expect_mask("a*", {"a"}, {"a", "</s>"}, "The text may end here, so the token that ends it may come.", true);
  expect_mask("a+", {"a"}, {"a"}, "The text has to have an a first: it may not end yet.", true);
  expect_mask("</s>a", {"<"}, {"<"},
              "Here </s> could be text, but the token that ends a text is no text: its bytes are not read.", true);
}

TEST(TokenMask, WithoutBytesNoTokenComes) {
  expect_mask("a*", {"a", ""}, {"a"},
              "A token without bytes leaves the text as it is. It would be drawn again and again.");
}

// Compares masks with a brute-force search: a token is allowed if a string that the expression matches begins with it.
// The search tries all strings of up to 7 bytes a and b; no expression of this test matches another string.
TEST(TokenMask, AnyMaskIsThatOfTheTexts) {
  Texts tokens{"a", "b", "aa", "ab", "ba", "bb", "aba", "bab", "abb", "bbb"};
  for (const char* expression : {"a?b?a?b", "(a|bb)(ab|b)?a", "[ab][ab]?b(aa|b)", "(ab|)(ab|)b", "a(b|ba|bb)(a|)"}) {
    Texts all{""}, texts;
    for (size_t i = 0; i < all.size(); ++i) {
      if (slow_match(read_regex(expression), all[i])) texts.push_back(all[i]);
      if (all[i].size() < 7) all.insert(all.end(), {all[i] + "a", all[i] + "b"});
    }
    Texts expected;
    for (const std::string& token : tokens) {
      const auto goes_on = [&](const std::string& text) { return text.starts_with(token); };
      if (std::any_of(texts.begin(), texts.end(), goes_on)) expected.push_back(token);
    }
    expect_mask(expression, tokens, expected, "All texts of the expression were looked at.");
  }
}

}  // namespace
}  // namespace folio::exercises
