#include "infer/server/log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <string>

#include "core/error.h"

namespace folio::infer::server {
namespace {

constexpr size_t kMaxText = PIPE_BUF - 64;  // bytes; leaves space for the time, an escape at the end and the newline

mode_t kind_of(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_mode & S_IFMT : 0;
}

}  // namespace

int reopen_non_blocking(int fd) {
  const mode_t kind = kind_of(fd);
  if (kind != S_IFIFO && kind != S_IFCHR) return -1;
  return ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

Log::Log(int fd) : fd_(fd), own_(reopen_non_blocking(fd)), is_socket_(kind_of(fd) == S_IFSOCK) {}

Log::~Log() {
  if (own_ >= 0) ::close(own_);
}

void Log::line(std::string_view text) const {
  const std::string line =
      fmt::format("{:%Y-%m-%d %H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), core::printable(text, kMaxText));
  if (is_socket_) {
    static_cast<void>(::send(fd_, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    return;
  }
  if (own_ < 0) {  // a file, or a pipe that could not be reopened: write only if ready
    pollfd out{.fd = fd_, .events = POLLOUT, .revents = 0};
    if (::poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) return;
  }
  static_cast<void>(!::write(own_ < 0 ? fd_ : own_, line.data(), line.size()));
}

}  // namespace folio::infer::server
