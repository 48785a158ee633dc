// Memory that processes of one host share.
#pragma once

#include <cstddef>
#include <string>

namespace folio::core {

/// A mapping of a named piece of shared memory, which is removed with its last user: unlink() takes the name away as
/// soon as all have opened it.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// A new piece, all of it there: nothing that is written later can fail. Empty if there is no room for it.
  static SharedMemory create(const std::string& name, size_t size);
  /// Empty if it isn't there.
  static SharedMemory open(const std::string& name, size_t size);
  /// A name that no other piece has.
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

/// Whether ranks of one host are to share memory: $FOLIO_RANK_TRANSPORT is "shared", the default, or "gloo". Throws
/// UsageError if it is neither.
[[nodiscard]] bool ranks_share_memory();

}  // namespace folio::core
