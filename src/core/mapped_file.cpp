#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>

#include "core/error.h"
#include "core/file_status.h"

namespace folio::core {
namespace {

// A mapped file, recorded for the handler of SIGBUS. Slots are global and contain no pointers to memory that could be
// freed. If no slot is free, a mapping is not recorded. Long paths are truncated.
struct MappingSlot {
  std::atomic<const std::byte*> begin{nullptr};
  std::atomic<size_t> size{0};  ///< 0 while the path is being written
  std::array<char, 512> path{};
};
std::array<MappingSlot, 64> mapping_slots;

void note_mapping(std::span<const std::byte> bytes, const std::string& path) {
  for (MappingSlot& slot : mapping_slots) {
    const std::byte* expected = nullptr;
    if (!slot.begin.compare_exchange_strong(expected, bytes.data())) continue;
    slot.path[path.copy(slot.path.data(), slot.path.size() - 1)] = '\0';
    slot.size = bytes.size();
    return;
  }
}

void forget_mapping(const std::byte* begin) {
  for (MappingSlot& slot : mapping_slots) {
    if (slot.begin != begin) continue;
    slot.size = 0;
    slot.begin = nullptr;
    return;
  }
}

}  // namespace

const char* mapped_path_at(const void* address) noexcept {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const MappingSlot& slot : mapping_slots) {
    const auto begin = reinterpret_cast<uintptr_t>(slot.begin.load());
    if (begin != 0 && at >= begin && at - begin < slot.size) return slot.path.data();
  }
  return nullptr;
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  require_path(path);
  const int fd =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // O_NONBLOCK: do not wait for a pipe's writer
  if (fd < 0) fail("cannot open {}: {}", path.string(), reason_of(errno));
  struct stat status {};
  const bool regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular || status.st_size == 0) {
    ::close(fd);
    if (regular) fail("{} is an empty file", path.string());
    fail("{} is not a regular file but {}; name a file", path.string(), kind_of_file(status.st_mode));
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (address == MAP_FAILED) fail("cannot map {}: {}", path.string(), std::strerror(error));
  bytes_ = {static_cast<const std::byte*>(address), size};
  note_mapping(bytes_, path.string());
}

MappedFile::~MappedFile() {
  forget_mapping(bytes_.data());
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

bool MappedFile::contains(std::span<const std::byte> part) const {
  const std::less_equal<> before;  // unlike <=, defined for pointers to different objects
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

}  // namespace folio::core
