#include "core/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/random.h"

namespace folio::core {

SharedMemory SharedMemory::create(const std::string& name, size_t size) {
  const int file = ::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return {};
  const bool there = ::posix_fallocate(file, 0, static_cast<off_t>(size)) == 0;
  ::close(file);
  if (there) return open(name, size);
  unlink(name);
  return {};
}

SharedMemory SharedMemory::open(const std::string& name, size_t size) {
  const int file = ::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return {};
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  SharedMemory memory;
  if (data == MAP_FAILED) return memory;
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = size;
  return memory;
}

std::string SharedMemory::new_name() { return fmt::format("/folio-{:016x}", system_random()); }

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void SharedMemory::unlink(const std::string& name) { ::shm_unlink(name.c_str()); }

bool ranks_share_memory() {
  const char* variable = std::getenv("FOLIO_RANK_TRANSPORT");
  const std::string_view transport = variable == nullptr ? "" : variable;
  if (transport.empty() || transport == "shared") return true;
  if (transport == "gloo") return false;
  throw UsageError(
      fmt::format("FOLIO_RANK_TRANSPORT is \"{}\", but must be gloo or shared (the default)", printable(transport)));
}

}  // namespace folio::core
