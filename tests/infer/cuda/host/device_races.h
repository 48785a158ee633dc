// Detects races between blocks on device memory. Two blocks of a launch that access the same byte, one of them writing,
// must be ordered: the first writes, fences (__threadfence) and performs an atomic on a word; the second then performs
// an atomic on that word. Accesses by two warps of a block need a barrier between them. Races in a warp are ignored.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tests/infer/cuda/host/access.h"

namespace folio::infer::gpu::host::races {

/// An earlier access, and the block that made it.
struct BlockAccess {
  Access access;
  uint32_t block;
};

/// An access: its block; 1024 * interval + thread, where `interval` is the number of barriers before the access; and
/// its code address (see to_offset()).
struct Moment {
  uint32_t block = 0;
  uint32_t interval_and_thread = 0;
  int32_t at = 0;
};

struct DeviceCell {
  Moment write;
  Moment read;
  Moment warp_read;   // a read by another warp of the same block, if many_warps
  Moment other_read;  // the read by another block with the most barriers before it, if many_blocks
  Action write_action = Action::kWrite;
  bool written = false;
  bool was_read = false;
  bool many_warps = false;
  bool many_blocks = false;
};

/// A device allocation. For each byte that a launch accesses, a cell records the latest accesses.
class DeviceRange {
 public:
  DeviceRange(const void* begin, size_t bytes)
      : begin_(static_cast<const unsigned char*>(begin)), bytes_(bytes), pages_(bytes / kPage + 1) {}

  [[nodiscard]] const unsigned char* begin() const { return begin_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  /// Returns the cell of a byte, empty if this launch has not accessed its page.
  [[nodiscard]] DeviceCell& cell(size_t offset, uint64_t launch);

 private:
  static constexpr size_t kPage = 1024;
  struct Page {
    uint64_t launch = 0;
    DeviceCell cells[kPage];
  };

  const unsigned char* begin_;
  size_t bytes_;
  std::vector<std::unique_ptr<Page>> pages_;
};

/// Tracks how fences and atomics order the accesses of a launch's blocks, which run one after another.
class DeviceRaces {
 public:
  void begin_launch();
  void begin_block(uint32_t block);
  void end_block();
  void barrier();
  void fence(unsigned thread);
  /// Records an atomic on a word: acquires what other blocks released there, and releases this thread's fenced writes.
  void join(const void* word, unsigned thread);
  [[nodiscard]] std::optional<BlockAccess> touch(DeviceRange& range, size_t offset, const Access& access);

 private:
  static constexpr unsigned kThreads = 1024;

  /// Accesses of another block that are ordered before the running block: all with fewer than `interval` barriers
  /// before them, and those of `warp` with exactly `interval`.
  struct Known {
    uint32_t interval = 0;
    uint32_t warp = 0;  // kAnyWarp for all warps
  };
  static constexpr uint32_t kAnyWarp = 0xFFFFFFFF;
  using Knowledge = std::unordered_map<uint32_t, Known>;  // for each block index: that block's ordered accesses

  static void learn(Knowledge& of, uint32_t block, Known known);
  [[nodiscard]] Moment now(const Access& access) const;
  [[nodiscard]] bool ordered(const Moment& before, unsigned thread) const;
  /// Returns a read in `cell` that is not ordered before a write by `thread`, or null if there is none.
  [[nodiscard]] const Moment* reader_against(const DeviceCell& cell, unsigned thread) const;
  void add_reader(DeviceCell& cell, const Access& access) const;

  uint64_t launch_ = 0;
  uint32_t block_ = 0;
  uint32_t interval_ = 0;  // number of barriers of the running block so far
  std::vector<uint32_t> ran_;
  Knowledge known_;                                  // other blocks' accesses ordered before the running block
  std::unordered_map<const void*, Knowledge> left_;  // accesses ordered before the last atomic on each word
  std::bitset<kThreads> unfenced_;                   // threads that have written since their last fence
  bool unfenced_before_ = false;                     // true if a thread had unfenced writes at the last barrier
};

}  // namespace folio::infer::gpu::host::races
