// A library to preload into tested programs. It delays 2 % of their writes and thread notifications by 300 ms, and thus
// responses, wake-ups and the asynchronous engine's steps. The environment variable FOLIO_DELAY_SEED selects the calls.
// Python's own calls are not delayed.
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

bool is_pythons(const void* caller) {
  Dl_info info{};
  if (::dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  const char* slash = std::strrchr(info.dli_fname, '/');
  const char* name = slash == nullptr ? info.dli_fname : slash + 1;
  return std::strncmp(name, "python", 6) == 0 || std::strncmp(name, "libpython", 9) == 0;
}

// Delays 2 % of calls, selected by a hash (splitmix64) of the seed and the call's number.
void maybe_delay(const void* caller) {
  static const char* const seed = std::getenv("FOLIO_DELAY_SEED");
  static constinit std::atomic<uint64_t> n_calls{0};
  const uint64_t first = seed == nullptr ? 0 : std::strtoull(seed, nullptr, 10) << 32U;
  uint64_t x = (first + ++n_calls) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  if ((x ^ (x >> 31U)) % 100 >= 2 || is_pythons(caller)) return;
  const timespec delay{.tv_sec = 0, .tv_nsec = 300'000'000};
  ::nanosleep(&delay, nullptr);
}

// Returns the C library's function with this name. pthread_cond_* functions have two versions; returns the newer one.
template <typename Function>
Function* original(Function* /*replacement*/, const char* name) {
  void* found = ::dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  return reinterpret_cast<Function*>(found != nullptr ? found : ::dlsym(RTLD_NEXT, name));
}

}  // namespace

#define DELAYED(type, name, parameters, ...)                      \
  extern "C" type name parameters {                               \
    static type(*const next) parameters = original(&name, #name); \
    maybe_delay(__builtin_return_address(0));                     \
    return next(__VA_ARGS__);                                     \
  }

DELAYED(ssize_t, write, (int file, const void* bytes, size_t n), file, bytes, n)
DELAYED(ssize_t, writev, (int file, const iovec* parts, int n), file, parts, n)
DELAYED(ssize_t, send, (int socket, const void* bytes, size_t n, int flags), socket, bytes, n, flags)
DELAYED(ssize_t, sendmsg, (int socket, const msghdr* message, int flags), socket, message, flags)
DELAYED(int, pthread_cond_signal, (pthread_cond_t * condition), condition)
DELAYED(int, pthread_cond_broadcast, (pthread_cond_t * condition), condition)

// Delays futex wake-ups, which std::atomic's notify_one() makes through syscall().
extern "C" long syscall(long number, ...) {
  static long (*const next)(long, ...) = original(&syscall, "syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& one : a) one = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE) maybe_delay(__builtin_return_address(0));
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
