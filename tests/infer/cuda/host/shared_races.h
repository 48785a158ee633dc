// Detects races in a block's shared memory. Two accesses to a byte, one of them a write, must be ordered: by
// __syncthreads for all threads, by __syncwarp for the lanes of its mask. Lanes have vector clocks (Lamport 1978,
// Mattern 1989). A cell stores a byte's last write and the reads since then, as in FastTrack (Flanagan and Freund
// 2009), but with one clock, the latest, for all lanes of a warp that read the byte.
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

  /// Starts the next interval, the time between two barriers. Called at a block's start and at each barrier.
  void next_interval();
  void sync_warp(unsigned warp, uint32_t mask);
  /// Records an access to one byte. Returns an earlier access that is not ordered before it, if there is one.
  [[nodiscard]] std::optional<Access> touch(size_t offset, const Access& access);

 private:
  static constexpr unsigned kLanes = 32;
  static constexpr unsigned kThreads = 1024;

  struct Cell {
    uint32_t write_interval = 0;  // the write fields are valid if this is the current interval
    uint32_t write_clock = 0;
    int32_t write_at = 0;
    uint16_t write_thread = 0;
    Action write_action = Action::kWrite;
    bool many_warps = false;  // true if several warps have read since the last write or barrier
    uint32_t read_interval = 0;
    uint32_t read_clock = 0;
    uint32_t read_lanes = 0;
    int32_t read_at = 0;
    int32_t other_at = 0;
    uint16_t read_thread = 0;   // the first thread that read since the last write or barrier
    uint16_t other_thread = 0;  // a thread of another warp that read, if many_warps
  };

  /// Returns true if the access of thread `before` at its time `clock` is ordered before the access of thread `now`.
  [[nodiscard]] bool ordered(unsigned before, uint32_t clock, unsigned now) const;
  [[nodiscard]] std::optional<Access> reader_against(const Cell& cell, unsigned thread) const;
  void add_reader(Cell& cell, const Access& access) const;

  std::vector<Cell> cells_;
  uint32_t interval_ = 0;
  std::array<uint32_t, kThreads> clock_{};                      // each thread's own clock, which only increases
  std::array<std::array<uint32_t, kLanes>, kThreads> known_{};  // (thread, lane of its warp): latest clock observed
};

}  // namespace folio::infer::gpu::host::races
