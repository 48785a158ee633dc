// Tests infer/server/log.h: a line is written completely or not at all, and writing never blocks.
#include "infer/server/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <string>

namespace folio::infer::server {
namespace {

// Both ends of a pipe or socket pair: fd[0] to read without blocking, fd[1] to write.
struct Ends {
  std::array<int, 2> fd{};
  Ends() = default;
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends() {
    for (const int one : fd) close(one);
  }
  std::string all() {
    std::string text;
    std::array<char, 4096> bytes{};
    for (ssize_t n = 0; (n = read(fd[0], bytes.data(), bytes.size())) > 0;) {
      text.append(bytes.data(), static_cast<size_t>(n));
    }
    return text;
  }
};

void fill_and_drain(Ends& ends) {
  ASSERT_EQ(fcntl(ends.fd[0], F_SETFL, O_NONBLOCK), 0);
  const int flags = fcntl(ends.fd[1], F_GETFL);
  {
    const Log log(ends.fd[1]);
    for (int i = 0; i < 10'000; ++i) log.line(std::string(200, 'a'));  // more than the buffer of an unread pipe
    std::string text = ends.all();
    EXPECT_GT(text.size(), 200U);
    EXPECT_LT(text.size(), 10'000U * 200U);
    EXPECT_TRUE(text.ends_with("a\n"));
    log.line("b\nc" + std::string(1'000'000, '\1'));
    text = ends.all();
    EXPECT_LE(text.size(), static_cast<size_t>(PIPE_BUF));
    EXPECT_NE(text.find(" b\\x0Ac\\x01"), std::string::npos);
    EXPECT_EQ(text.find('\n'), text.size() - 1);
  }
  EXPECT_EQ(fcntl(ends.fd[1], F_GETFL), flags);  // unchanged, since a shell may share the descriptor
}

TEST(Log, NeverWaitsForAPipe) {
  Ends ends;
  ASSERT_EQ(pipe(ends.fd.data()), 0);
  fill_and_drain(ends);
}

TEST(Log, NeverWaitsForASocket) {
  Ends ends;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.fd.data()), 0);
  fill_and_drain(ends);
}

}  // namespace
}  // namespace folio::infer::server
