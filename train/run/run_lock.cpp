#include "train/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"

namespace folio::train {
namespace {

// The process id that the holder wrote into the file, if it already did.
std::string holder(int fd) {
  std::array<char, 16> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  const std::string number(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  return number.empty() ? "another process" : fmt::format("process {}", core::printable(number));
}

// Whether `path` still names the file `fd`: the previous holder removes the file when it releases the lock.
bool stands_under(int fd, const std::filesystem::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run) : path_(run / ".lock"), fd_(-1) {
  do {
    if (fd_ >= 0) ::close(fd_);
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) core::fail("cannot lock the run: cannot write {}: {}", path_.string(), std::strerror(errno));
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const std::string by = holder(fd_);
      ::close(fd_);
      core::require(error != EWOULDBLOCK,
                    "the run in {} is being trained by {}: let it end or stop it, or take another --out", run.string(),
                    by);
      core::fail("cannot lock {}: {}; take an --out on a file system that has locks", path_.string(),
                 std::strerror(error));
    }
  } while (!stands_under(fd_, path_));
  // Only shown to users, so a full disk is no reason to fail.
  const std::string number = std::to_string(::getpid());
  if (::ftruncate(fd_, 0) == 0) static_cast<void>(!::pwrite(fd_, number.data(), number.size(), 0));
}

RunLock::~RunLock() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());
  ::close(fd_);
}

RunLock::RunLock(RunLock&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

}  // namespace folio::train
