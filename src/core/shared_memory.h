// Memory shared by processes on one host.
#pragma once

#include <cstddef>
#include <string>

namespace folio::core {

/// A mapping of a named shared memory object. Once all processes have opened it, call unlink(); the memory is then
/// freed when the last mapping ends.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// Creates and maps a new object of `size` bytes. Allocates its memory, so that later writes can't raise SIGBUS.
  /// Returns an empty SharedMemory on failure.
  static SharedMemory create(const std::string& name, size_t size);
  /// Maps the first `size` bytes of an existing object. Returns an empty SharedMemory on failure.
  static SharedMemory open(const std::string& name, size_t size);
  /// Returns a random name for a new object.
  static std::string new_name();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }
  static void unlink(const std::string& name);

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Returns true if the ranks on one host exchange data through shared memory, that is, if
/// $FOLIO_RANK_TRANSPORT is unset, empty or "shared". Returns false for "gloo". Throws UsageError for any other value.
[[nodiscard]] bool ranks_share_memory();

}  // namespace folio::core
