// The shared memory of the running emulated block: dynamic memory and arrays of exactly the declared lengths, filled
// with NaN, between red zones. The race detector detects accesses to a red zone. Without it, writes to a red zone are
// detected when the block ends.
#pragma once

#include <cstddef>
#include <source_location>
#include <string>
#include <vector>

namespace folio::infer::gpu::host {

class SharedMemory {
 public:
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Starts a block with `dynamic_bytes` of dynamic shared memory, and at most `limit` bytes of shared memory in total.
  void begin_block(size_t dynamic_bytes, size_t limit);
  /// Returns the shared array declared at `at`, and creates it on the first call.
  [[nodiscard]] void* array(size_t element_bytes, size_t count, const std::source_location& at);
  [[nodiscard]] unsigned char* dynamic() const { return arena_ + arrays_[0].offset; }
  /// Throws core::Error if a red zone was written to.
  void end_block() const;

  [[nodiscard]] const unsigned char* begin() const { return arena_; }
  /// Returns the total size in bytes of the block's arrays and dynamic memory, without red zones.
  [[nodiscard]] size_t bytes() const { return asked_; }
  [[nodiscard]] bool holds(const void* address) const {
    return static_cast<const unsigned char*>(address) - arena_ >= 0 &&
           static_cast<const unsigned char*>(address) < arena_ + kArenaBytes;
  }
  /// Returns true if all `bytes` from `address` on are in one array or in the dynamic memory.
  [[nodiscard]] bool inside(const void* address, size_t bytes) const;
  /// Returns an address for messages, such as "byte 12 of the array of a.cu:7".
  [[nodiscard]] std::string describe(const void* address) const;

  static constexpr size_t kArenaBytes = size_t{320} << 10U;

 private:
  struct Array {
    size_t offset;
    size_t bytes;
    std::source_location at;  ///< location of the declaration; unused for the first array, the dynamic memory
  };

  void* add(size_t bytes, bool wide, const std::source_location& at);

  unsigned char* arena_;  // (kArenaBytes)
  std::vector<Array> arrays_;
  size_t used_ = 0;   // bytes of the arena, with red zones
  size_t asked_ = 0;  // bytes of all arrays, without red zones
  size_t limit_ = 0;
};

}  // namespace folio::infer::gpu::host
