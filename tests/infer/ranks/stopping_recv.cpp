#include "tests/infer/ranks/stopping_recv.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

namespace {

constexpr size_t kNever = SIZE_MAX;
std::atomic<size_t> n_received{0};
std::atomic<size_t> stops_at{kNever};

}  // namespace

// Replaces the C library's function. <sys/socket.h> must not be included, since it may define recv() inline.
extern "C" ssize_t recv(int socket, void* into, size_t n, int flags) {
  const ssize_t got = ::syscall(SYS_recvfrom, socket, into, n, flags, nullptr, nullptr);
  if (got <= 0) return got;
  const auto size = static_cast<size_t>(got);
  const size_t before = n_received.fetch_add(size);
  if (before < stops_at && before + size >= stops_at) ::kill(::getpid(), SIGSTOP);
  return got;
}

namespace folio::infer::test {

void stop_after_bytes(size_t n) { stops_at = n_received + n; }

}  // namespace folio::infer::test
