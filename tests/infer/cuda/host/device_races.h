// Which block touched which byte of device memory. Two blocks of a launch that touch the same byte, one of them
// writing, need an order: the one wrote, fenced (__threadfence) and touched a word with an atomic; the other touched
// that word with an atomic afterwards. Within a block, two warps need a barrier between them. Lanes of a warp are not
// told apart.
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

/// When a block did something: barriers before it and its thread.
struct Moment {
  uint32_t block = 0;
  uint32_t interval_and_thread = 0;
  int32_t at = 0;
};

struct DeviceCell {
  Moment write;
  Moment read;        // the last one
  Moment warp_read;   // of another warp of its block, if many_warps
  Moment other_read;  // of another block, with the most barriers, if many_blocks
  Action write_action = Action::kWrite;
  bool written = false;
  bool was_read = false;
  bool many_warps = false;
  bool many_blocks = false;
};

/// An allocation, with its cells where it was touched.
class DeviceRange {
 public:
  DeviceRange(const void* begin, size_t bytes)
      : begin_(static_cast<const unsigned char*>(begin)), bytes_(bytes), pages_(bytes / kPage + 1) {}

  [[nodiscard]] const unsigned char* begin() const { return begin_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  /// Empty where the launch has not touched its surroundings.
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

/// The orders between the blocks of one launch. Blocks run one after the other.
class DeviceRaces {
 public:
  void begin_launch();
  void begin_block(uint32_t block);
  void end_block();
  void barrier();
  void fence(unsigned thread);
  /// An atomic on a word: takes what others have left there, and leaves what this thread has fenced.
  void join(const void* word, unsigned thread);
  [[nodiscard]] std::optional<BlockAccess> touch(DeviceRange& range, size_t offset, const Access& access);

 private:
  static constexpr unsigned kThreads = 1024;

  /// Of a block's work: all before so many barriers, and what one warp did after the last of them.
  struct Known {
    uint32_t interval = 0;
    uint32_t warp = 0;  // kAnyWarp: all
  };
  static constexpr uint32_t kAnyWarp = 0xFFFFFFFF;
  using Knowledge = std::unordered_map<uint32_t, Known>;  // by block

  static void learn(Knowledge& of, uint32_t block, Known known);
  [[nodiscard]] Moment now(const Access& access) const;
  [[nodiscard]] bool ordered(const Moment& before, unsigned thread) const;
  /// A reader that nothing orders before a write of this thread, or null.
  [[nodiscard]] const Moment* reader_against(const DeviceCell& cell, unsigned thread) const;
  void add_reader(DeviceCell& cell, const Access& access) const;

  uint64_t launch_ = 0;
  uint32_t block_ = 0;
  uint32_t interval_ = 0;  // barriers of the block so far
  std::vector<uint32_t> ran_;
  Knowledge known_;                                  // to the block that runs
  std::unordered_map<const void*, Knowledge> left_;  // by word
  std::bitset<kThreads> unfenced_;                   // has written since its last fence
  bool unfenced_before_ = false;                     // somebody had, before the last barrier
};

}  // namespace folio::infer::gpu::host::races
