// Implements faults.h. With _FORTIFY_SOURCE, <fcntl.h> would define open() inline, so that it can't be replaced below.
#undef _FORTIFY_SOURCE
#include "tests/train/run/faults.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>

namespace folio::train::test {
namespace {

thread_local Faults* active = nullptr;

}  // namespace

Faults::Faults(int at, int error) : at_(at), error_(error) { active = this; }
Faults::~Faults() { active = nullptr; }

bool Faults::strikes(const char* call) {
  active = nullptr;  // calls that this function makes are not counted
  calls_.emplace_back(call);
  const bool now = static_cast<int>(calls_.size()) == at_;
  if (now && error_ == kKill) ::kill(::getpid(), SIGKILL);
  active = this;
  if (now) errno = error_;
  return now;
}

}  // namespace folio::train::test

// Folio and <filesystem> call the functions below instead of those of the C library, since an executable's symbols take
// precedence.
namespace {

bool strikes(const char* call) {
  auto* faults = folio::train::test::active;
  return faults != nullptr && faults->strikes(call);
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return strikes("open") ? -1 : static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return strikes("openat") ? -1 : static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}

ssize_t write(int fd, const void* bytes, size_t size) {
  return strikes("write") ? -1 : ::syscall(SYS_write, fd, bytes, size);
}

int fsync(int fd) {
  if (folio::train::test::active == nullptr) return static_cast<int>(::syscall(SYS_fsync, fd));
  return strikes("fsync") ? -1 : 0;
}

int close(int fd) {
  // Linux closes the file even if close() returns an error.
  const bool fails = strikes("close");
  const int error = errno;
  const auto closed = static_cast<int>(::syscall(SYS_close, fd));
  if (fails) errno = error;
  return fails ? -1 : closed;
}

int rename(const char* from, const char* to) noexcept {
  return strikes("rename") ? -1 : static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0U));
}

int mkdir(const char* path, mode_t mode) noexcept {
  return strikes("mkdir") ? -1 : static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int symlink(const char* target, const char* path) noexcept {
  return strikes("symlink") ? -1 : static_cast<int>(::syscall(SYS_symlinkat, target, AT_FDCWD, path));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  return strikes("unlinkat") ? -1 : static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
}

int unlink(const char* path) noexcept {
  return strikes("unlink") ? -1 : static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int rmdir(const char* path) noexcept {
  return strikes("rmdir") ? -1 : static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

int remove(const char* path) noexcept {
  if (strikes("remove")) return -1;
  const auto removed = static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
  if (removed == 0 || errno != EISDIR) return removed;
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

}  // extern "C"
