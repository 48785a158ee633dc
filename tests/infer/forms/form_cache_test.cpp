// Tests infer/forms/form_cache.h: recently used forms (output constraints) are reused instead of being compiled again.
#include "infer/forms/form_cache.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/error.h"
#include "tests/infer/forms/support.h"

namespace folio::infer::forms {
namespace {

FormOptions regex_of(std::string text) { return {.kind = FormOptions::Kind::Regex, .text = std::move(text)}; }

TEST(FormCache, CachesFormsByContent) {
  const test::ListTokenizer tokenizer({"a", "b", "ab", "{", "}", "\""});
  FormCache cache(tokenizer, 2);
  EXPECT_EQ(cache.form({}), nullptr);
  const auto a = cache.form(regex_of("a*"));
  EXPECT_EQ(cache.form(regex_of("a*")), a);
  EXPECT_NE(cache.form(regex_of("b*")), a);
  EXPECT_NE(cache.form({.kind = FormOptions::Kind::Grammar, .text = "root ::= \"a\""}), a);  // the third form evicts a*
  EXPECT_NE(cache.form(regex_of("a*")), a);
  const auto one = cache.form({.kind = FormOptions::Kind::Choice, .choices = {"ab"}});
  EXPECT_NE(cache.form({.kind = FormOptions::Kind::Choice, .choices = {"a", "b"}}), one);
  EXPECT_THROW(static_cast<void>(cache.form(regex_of("("))), core::Error);
  EXPECT_TRUE(test::takes(*a, "aaa"));
}

TEST(FormCache, IsThreadSafe) {
  const test::ListTokenizer tokenizer({"a", "b", "ab"});
  FormCache cache(tokenizer, 4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int n = (i * 7 + t) % 6 + 1;
        const auto form = cache.form(regex_of("a{" + std::to_string(n) + "}"));
        EXPECT_EQ(form->may_end(form->start()), false);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace folio::infer::forms
