// Tests of may_end and derivative: the empty text, each kind of expression, and equality with a slow matcher.
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/properties/serving/slow_match.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

// Returns all strings of up to `longest` characters from `letters`.
std::vector<std::string> texts_of(const std::string& letters, size_t longest) {
  std::vector<std::string> texts{""};
  for (size_t first = 0, n = 1; n <= longest; ++n) {
    for (const size_t end = texts.size(); first < end; ++first) {
      for (const char c : letters) texts.push_back(texts[first] + c);
    }
  }
  return texts;
}

bool takes(Regex rest, const std::string& text) {
  for (const char c : text) rest = derivative(rest, static_cast<uint8_t>(c));
  return may_end(rest);
}

// Expects derivatives to match the same strings as slow_match(), among all strings of up to five letters a, b and c.
void expect_texts(const std::string& expression, const std::string& why) {
  const Regex regex = read_regex(expression);
  for (const std::string& text : texts_of("abc", 5)) {
    const bool matches = slow_match(regex, text);
    if (takes(regex, text) == matches) continue;
    ADD_FAILURE() << "The expression " << expression << (matches ? " has" : " does not have") << " the text \"" << text
                  << "\", but behind it may_end says " << (matches ? "no" : "yes") << ".\n"
                  << why;
    return;
  }
}

void expect_may_end(const std::string& expression, bool expected, const std::string& why) {
  if (may_end(read_regex(expression)) == expected) return;
  ADD_FAILURE() << "may_end of \"" << expression << "\" is " << (expected ? "false" : "true") << ".\n" << why;
}

TEST(Derivative, MayEndAsksForTheEmptyText) {
  expect_may_end("", true, "It is the empty text.");
  expect_may_end("a", false, "It has one text, and that has a byte.");
  expect_may_end("a*", true, "A star has its part any number of times, and none is a number.");
  expect_may_end("a*b", false, "Both parts of a sequence have to be empty: each text ends with b.");
  expect_may_end("a*b*", true, "Both parts of the sequence have the empty text.");
  expect_may_end("a|b*", true, "Of a choice one part is enough.");
}

TEST(Derivative, AnotherByteLeavesNothing) {
  const Regex left = derivative(read_regex("a"), 'b');
  EXPECT_TRUE(is(left, RegexNode::Kind::Nothing))
      << "No text of a begins with b: what is left is nothing(). empty() would be one text, the empty one.";
  EXPECT_TRUE(is(derivative(empty(), 'a'), RegexNode::Kind::Nothing))
      << "Nor does the empty text begin with a byte: behind it comes nothing().";
}

TEST(Derivative, AByteIsRead) {
  expect_texts("a",
               "Behind a comes the end: the derivative of a byte by itself is the empty text, not the byte once more.");
  expect_texts("[ac]", "Each byte of the set is read, and no other.");
}

TEST(Derivative, AChoiceGoesBothWays) {
  expect_texts("a|b", "A text of either part will do, so both derivatives are asked for.");
}

TEST(Derivative, ASequenceGoesOn) {
  expect_texts("abc",
               "Behind a comes what is left of the first part, and then the whole second part: in this order, and not "
               "one without the other. The second part can't begin before the first may end.");
}

TEST(Derivative, APartThatMayEndIsPassed) {
  expect_texts("a?b", "a? has the empty text, too, so a text may begin with b: that is another choice.");
  expect_texts("(a|)(b|)c", "Both parts may be passed.");
  expect_texts("(a|b|)ab", "Where the first part may end, its own derivative stays, as the other choice.");
}

TEST(Derivative, AStarBeginsAgain) {
  expect_texts(
      "(ab)*",
      "Behind one text of the star's part comes the whole star again. It is not once only, and not the rest of "
      "the part that comes again and again.");
  expect_texts("(a|bc)*c", "Behind one text of the star's part comes the whole star again.");
}

TEST(Derivative, AnyExpressionTakesItsTexts) {
  for (const char* expression : {"a?b+c?", "(a|b)*c(a|b)?", "(ab|a)(bc|c)?", "((a|b)+c)*", "(a*b*)*c", "[ab]?[bc]+",
                                 "(a?b?c?)(a|c)", "(|a|ab)(c|bc)*"}) {
    expect_texts(expression, "Each kind alone is right, as the tests before say.");
  }
}

}  // namespace
}  // namespace folio::exercises
