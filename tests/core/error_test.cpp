// Tests core/error.h: an Error has the formatted message, and any string can be escaped for printing on one line.
#include "core/error.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>

#include "core/progress_line.h"
#include "core/utf8.h"
#include "tests/core/support.h"

namespace folio::core {
namespace {

TEST(Error, RequireThrowsIfTheConditionFails) {
  EXPECT_NO_THROW(require(true, "not {}", "shown"));
  EXPECT_EQ(test::error_of([] { require(false, "{} of {}", 3, "x"); }), "3 of x");
  EXPECT_EQ(test::error_of([] { fail("{}", "plain"); }), "plain");
}

TEST(Error, CallableArgumentsAreEvaluatedOnlyOnFailure) {
  int calls = 0;
  const auto costly = [&calls] {
    ++calls;
    return std::string("made");
  };
  require(true, "{} {}", 1, costly);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(test::error_of([&] { require(false, "{} {} {}", "is", costly, 2.5); }), "is made 2.5");
  EXPECT_EQ(test::error_of([&] { fail("{}", [] { return 3; }); }), "3");
  EXPECT_EQ(calls, 1);
}

TEST(Printable, KeepsPrintableText) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("ROMEO: \"ça\" 日本 😀"), "ROMEO: \"ça\" 日本 😀");
}

TEST(Printable, EscapesControlCharactersAndInvalidBytes) {
  EXPECT_EQ(printable("a\nb\tc"), "a\\x0Ab\\x09c");
  EXPECT_EQ(printable(std::string("\0\x7F", 2)), "\\x00\\x7F");
  EXPECT_EQ(printable("\x1B[31m"), "\\x1B[31m");
  EXPECT_EQ(printable("\xFF\xC0\x80"), "\\xFF\\xC0\\x80");
  EXPECT_EQ(printable("\xC2\x9B"), "\\xC2\\x9B") << "U+009B begins a terminal's escape sequences too";
  EXPECT_EQ(printable("caf\xC3"), "caf\\xC3");
}

TEST(ProgressLine, IsErasedBeforeAnErrorIsPrinted) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY), old = ::dup(STDERR_FILENO);
  ASSERT_EQ(::grantpt(terminal) | ::unlockpt(terminal), 0);
  const int shown = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(::dup2(shown, STDERR_FILENO), 0);
  const std::string error = test::error_of([] {
    ProgressLine line;
    line.show("{} %", 99);
    line.show("{} %", 9);
    fail("disk full");
  });
  print_stderr("{}", error);
  ::dup2(old, STDERR_FILENO);
  std::string text;  // a terminal passes on what is written in several parts, after a while
  pollfd part{.fd = terminal, .events = POLLIN, .revents = 0};
  for (char c = 0; !text.ends_with("full") && ::poll(&part, 1, 60'000) > 0 && ::read(terminal, &c, 1) == 1;) text += c;
  for (const int fd : {terminal, old, shown}) ::close(fd);
  EXPECT_EQ(text, "\r\x1b[K99 %\r\x1b[K9 %\r\x1b[Kdisk full");
}

TEST(Printable, TruncatesLongTextAtCharacterBoundaries) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef…");
  for (size_t max = 1; max < 40; ++max) {
    const std::string shown = printable(std::string(10, 'x') + "日本日本日本日本日本", max);
    EXPECT_TRUE(is_utf8(shown)) << max;
    EXPECT_LE(shown.size(), max + 3 + std::string("…").size());
  }
}

}  // namespace
}  // namespace folio::core
