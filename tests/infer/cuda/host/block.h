// Defines the emulated block that a host thread runs: its threads, its warps, and the lanes that wait for each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <source_location>
#include <string>
#include <vector>

#include "tests/infer/cuda/host/emulator.h"
#include "tests/infer/cuda/host/fibers.h"
#include "tests/infer/cuda/host/kernel_host.h"
#include "tests/infer/cuda/host/shared_memory.h"

namespace folio::infer::gpu::host {

inline constexpr unsigned kLanes = 32;
inline constexpr unsigned kMaxWarps = 32;

/// An asynchronous copy (cp.async) of 16 bytes to shared memory that has not completed.
struct PendingCopy {
  void* to;
  const void* from;
  unsigned batch;
};

/// An emulated thread of the block, with its unfinished copies.
struct BlockThread : Thread {
  unsigned warp = 0;
  unsigned lane = 0;
  Fiber* fiber = nullptr;  ///< the thread's fiber while it runs or waits, otherwise null
  std::vector<PendingCopy> copies;
  unsigned batches = 0;  ///< number of committed groups of copies (cp.async.commit_group)
};

/// Lanes that have arrived at an operation of the warp and wait for the other lanes of its mask.
struct Meeting {
  uint32_t mask = 0;
  uint32_t arrived = 0;
  std::source_location at;
};

struct Warp {
  uint32_t exists = 0;    ///< bit mask of lanes that have a thread
  uint32_t ready = 0;     ///< bit mask of runnable lanes
  uint32_t finished = 0;  ///< bit mask of lanes that have returned
  uint32_t at_barrier = 0;
  unsigned n_meetings = 0;
  std::array<Meeting, kLanes> meetings;
  Lanes data{};  ///< for each waiting lane, the pointer `mine` that it passed to meet()
};

class Block {
 public:
  Block();

  /// Runs all blocks of a launch, one after another. Throws the first core::Error of a thread.
  void run(Index grid, Index block, size_t shared_bytes, const std::function<void()>& kernel);

  /// Makes lanes of a warp meet. Each lane passes a mask and its own data, and waits. The last lane to arrive calls
  /// `compute` with the data of all lanes (null for lanes outside of the mask). Then all lanes continue. Throws
  /// core::Error if a lane isn't in its own mask, or if a lane of the mask doesn't exist, has returned, or waits at
  /// another line or with another mask. The message names the source lines where the lanes wait.
  void meet(uint32_t mask, void* mine, void (*compute)(const Lanes& lanes, unsigned mask),
            const std::source_location& at);
  void barrier(const std::source_location& at);

  [[nodiscard]] bool running() const { return kernel_ != nullptr; }
  [[nodiscard]] BlockThread& current() { return *current_; }
  [[nodiscard]] SharedMemory& shared() { return shared_; }
  [[nodiscard]] const Index& block_index() const { return block_index_; }
  [[nodiscard]] unsigned number(const BlockThread& t) const { return t.warp * kLanes + t.lane; }
  /// Returns a thread's name for messages: "thread (5, 0, 0) of block (2, 0, 0)".
  [[nodiscard]] std::string name(const BlockThread& t) const;

  void run_threads();  ///< main loop of a fiber: runs one thread after another; never returns
  [[nodiscard]] const BlockThread& thread_at(unsigned number) const { return threads_[number]; }
  [[nodiscard]] Fiber& current_fiber() { return *current_->fiber; }

 private:
  void run_block(Index index);
  void begin_block(Index index);
  void make_threads(Index grid, Index block);
  [[nodiscard]] BlockThread* pick();
  [[nodiscard]] unsigned pick_bit(uint32_t bits);
  void wait_for_others();
  void run_current();
  void check_end(const BlockThread& t) const;
  void stop(std::exception_ptr error);
  void make_ready(unsigned warp, uint32_t lanes) {
    warps_[warp].ready |= lanes;
    if (warps_[warp].ready != 0) ready_warps_ |= 1U << warp;
  }
  void complete(Warp& warp, Meeting& meeting, void (*compute)(const Lanes&, unsigned));
  // Throw errors for threads that would wait forever; where() describes a lane's state (errors.cpp).
  [[noreturn]] void fail_meeting(const Warp& warp, uint32_t mask, const std::source_location& at) const;
  [[noreturn]] void fail_barrier(const std::source_location& at) const;
  [[noreturn]] void fail_stuck() const;
  [[nodiscard]] std::string where(unsigned warp, unsigned lane) const;

  FiberPool fibers_;
  SharedMemory shared_;
  Fiber caller_;
  std::vector<BlockThread> threads_;
  std::array<Warp, kMaxWarps> warps_;
  std::vector<uint32_t> block_order_;

  Index grid_;
  Index block_;
  Index block_index_;
  size_t shared_bytes_ = 0;
  size_t shared_limit_ = 0;
  const std::function<void()>* kernel_ = nullptr;
  unsigned n_threads_ = 0;
  unsigned n_warps_ = 0;

  Order order_;
  uint64_t random_ = 1;
  BlockThread* current_ = nullptr;
  uint32_t ready_warps_ = 0;  // bit mask of warps with ready lanes
  unsigned n_finished_ = 0;
  unsigned n_at_barrier_ = 0;
  std::source_location barrier_at_;
  std::exception_ptr error_;
};

/// The block whose threads run on this host thread.
extern constinit thread_local Block* running_block;
[[nodiscard]] inline Block& block() { return *running_block; }
/// Returns the Block object of this host thread, which all of its launches use.
[[nodiscard]] Block& block_of_host_thread();
/// Returns this host thread's order of blocks and threads, which OrderScope sets.
[[nodiscard]] Order& order();

}  // namespace folio::infer::gpu::host
