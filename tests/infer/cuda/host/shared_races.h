// Who touched which byte of a block's shared memory. Two accesses of which one writes need an order between them:
// __syncthreads for all threads, __syncwarp for the lanes of its mask. Lanes carry vector clocks (Lamport 1978, Mattern
// 1989); a byte keeps its last write and the reads since then, as in FastTrack (Flanagan and Freund 2009), except that
// the readers of a warp share the latest of their clocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/infer/cuda/host/access.h"

namespace folio::infer::gpu::host::races {

class SharedRaces {
 public:
  explicit SharedRaces(size_t bytes) : cells_(bytes) { clock_.fill(1); }

  /// Between a barrier of the block and the next, or a block and the next.
  void next_interval();
  void sync_warp(unsigned warp, uint32_t mask);
  /// Of one byte. The earlier access that nothing orders before this one, if there is one.
  [[nodiscard]] std::optional<Access> touch(size_t offset, const Access& access);

 private:
  static constexpr unsigned kLanes = 32;
  static constexpr unsigned kThreads = 1024;

  struct Cell {
    uint32_t write_interval = 0;  // what follows is of this interval, or out of date
    uint32_t write_clock = 0;
    int32_t write_at = 0;
    uint16_t write_thread = 0;
    Action write_action = Action::kWrite;
    bool many_warps = false;  // have read
    uint32_t read_interval = 0;
    uint32_t read_clock = 0;
    uint32_t read_lanes = 0;
    int32_t read_at = 0;
    int32_t other_at = 0;
    uint16_t read_thread = 0;   // the first one
    uint16_t other_thread = 0;  // one of another warp
  };

  /// Whether what `before` did at its time `clock` is ordered before what `now` does.
  [[nodiscard]] bool ordered(unsigned before, uint32_t clock, unsigned now) const;
  [[nodiscard]] std::optional<Access> reader_against(const Cell& cell, unsigned thread) const;
  void add_reader(Cell& cell, const Access& access) const;

  std::vector<Cell> cells_;
  uint32_t interval_ = 0;
  std::array<uint32_t, kThreads> clock_{};                      // each thread's own, which only grows
  std::array<std::array<uint32_t, kLanes>, kThreads> known_{};  // (thread, lane of its warp): what it has seen
};

}  // namespace folio::infer::gpu::host::races
