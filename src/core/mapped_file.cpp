#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "core/error.h"

namespace folio::core {

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int fd =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // O_NONBLOCK: do not wait for a pipe's writer
  if (fd < 0) fail("cannot open {}: {}", path.string(), std::strerror(errno));
  struct stat status {};
  const bool regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular || status.st_size == 0) {
    ::close(fd);
    fail("{} {}", path.string(), regular ? "is an empty file" : "is not a regular file");
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (address == MAP_FAILED) fail("cannot map {}: {}", path.string(), std::strerror(error));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

bool MappedFile::contains(std::span<const std::byte> part) const {
  const std::less_equal<> before;  // of any two pointers
  return before(bytes_.data(), part.data()) && before(part.data() + part.size(), bytes_.data() + bytes_.size());
}

void MappedFile::release(std::span<const std::byte> part) const {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = [](const std::byte* p) { return reinterpret_cast<uintptr_t>(p); };
  const uintptr_t begin = (std::max(address(part.data()), address(bytes_.data())) + page - 1) / page * page;
  const uintptr_t end =
      std::min(address(part.data()) + part.size(), address(bytes_.data()) + bytes_.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace folio::core
