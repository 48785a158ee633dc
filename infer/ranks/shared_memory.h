// Memory that processes of one host share, and rounds through it.
#pragma once

#include <cstdint>
#include <string>

#include "infer/ranks/rounds.h"

namespace folio::infer {

/// A mapping of a named piece of shared memory, which is removed with its last user: unlink() takes the name away as
/// soon as all have opened it.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// A new piece, all of it there: nothing that is written later can fail. Empty if there is no room for it.
  static SharedMemory create(const std::string& name, size_t size);
  /// Empty if it isn't there.
  static SharedMemory open(const std::string& name, size_t size);
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

/// Bytes that the rounds of so many members take.
[[nodiscard]] size_t shared_rounds_bytes(size_t n_members);
/// `index` is this member's. The memory is zero at first.
[[nodiscard]] std::unique_ptr<Rounds> make_shared_rounds(Peers& peers, SharedMemory memory, std::vector<size_t> group,
                                                         size_t index);

}  // namespace folio::infer
