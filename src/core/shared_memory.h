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
  /// Creates an object and allocates its memory, so later writes cannot fail. Returns an empty SharedMemory on failure.
  static SharedMemory create(const std::string& name, size_t size);
  /// Opens an existing object. Returns an empty SharedMemory if there is none.
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

/// Returns true if ranks on one host use shared memory: $FOLIO_RANK_TRANSPORT is "shared" (the default), not "gloo".
/// Throws UsageError for any other value.
[[nodiscard]] bool ranks_share_memory();

}  // namespace folio::core
