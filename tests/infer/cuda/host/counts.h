// Counts what the warps of a launch do: bytes, 32-byte sectors, bank conflicts, barriers, products and divergence, for
// kernels that folio_add_host_kernels(... COUNTS) instruments. Caches, scheduling and time are not modeled (README.md).
//
// Each thread records the basic blocks and accesses that it executes, with their code addresses. When all lanes of a
// warp meet (barrier, shuffle, end), their records are replayed in lockstep: lanes with the deepest call stack first,
// among these the lanes at the lowest address (MinSP-PC, Collange 2011). Lanes at the same address form one warp
// instruction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace folio::infer::gpu::host {

/// Sums over all launches of a CountScope, unless stated otherwise.
struct Counts {
  uint64_t launches = 0;
  uint64_t blocks = 0;
  unsigned block_threads = 0;  ///< threads per block of the last launch
  size_t shared_bytes = 0;     ///< maximum of all blocks
  // Device memory. A request is an access by a warp; its sectors are the 32-byte units that its lanes touch.
  uint64_t loaded_bytes = 0;  ///< sum over lanes
  uint64_t stored_bytes = 0;
  uint64_t load_requests = 0;
  uint64_t store_requests = 0;
  uint64_t load_sectors = 0;  ///< sum over requests
  uint64_t store_sectors = 0;
  uint64_t distinct_sectors = 0;  ///< sectors loaded + sectors stored, each counted once per launch
  // Shared memory: 32 banks of 4 bytes. A wavefront serves one word of each bank.
  uint64_t shared_requests = 0;
  uint64_t shared_wavefronts = 0;
  uint64_t bank_conflicts = 0;  ///< wavefronts beyond those that the request's bytes need
  // Instructions
  uint64_t barriers = 0;            ///< __syncthreads, per block
  uint64_t shuffles = 0;            ///< per warp
  uint64_t multiply_adds = 0;       ///< fmaf, per lane
  uint64_t tile_products = 0;       ///< tensor-core products of 16 × 8 tiles, per warp
  uint64_t tile_multiply_adds = 0;  ///< multiply-adds of the tile products
  // Control flow
  uint64_t basic_blocks = 0;        ///< basic blocks executed by warps, counted at each execution
  uint64_t active_lanes = 0;        ///< lanes that execute a basic block, summed over basic_blocks
  uint64_t divergent_branches = 0;  ///< basic blocks after which a warp's active lanes execute different blocks

  [[nodiscard]] uint64_t sectors() const { return load_sectors + store_sectors; }
  [[nodiscard]] uint64_t requested_bytes() const { return loaded_bytes + stored_bytes; }
  /// Returns the mean fraction of lanes that are active in a basic block: 1 for full warps without divergence.
  [[nodiscard]] double active_share() const {
    return basic_blocks == 0 ? 1.0 : static_cast<double>(active_lanes) / (32.0 * static_cast<double>(basic_blocks));
  }
};

/// One access of a warp to memory.
struct WarpAccess {
  bool shared = false;
  bool store = false;
  uint32_t bytes = 0;   ///< per lane
  uint32_t active = 0;  ///< bit mask of the accessing lanes
  std::array<uint64_t, 32> address{};
  const void* caller = nullptr;  ///< address of the accessing code
};
/// Returns the source line of an access, such as "b_rows.cu:12".
[[nodiscard]] std::string place_of(const WarpAccess& access);

/// Selects the warp whose first `max_accesses` memory accesses CountScope::trace() returns, for figures.
struct TracedWarp {
  uint32_t block = 0;
  unsigned warp = 0;
  size_t max_accesses = 64;
};

/// Counts this host thread's launches until the end of the scope. Scopes must not be nested.
class CountScope {
 public:
  explicit CountScope(TracedWarp traced = {});
  ~CountScope();
  CountScope(const CountScope&) = delete;
  CountScope& operator=(const CountScope&) = delete;

  [[nodiscard]] const Counts& counts() const;
  [[nodiscard]] const std::vector<WarpAccess>& trace() const;
};

// The emulator and the compiler's hooks (tsan.cpp) call these functions. Without the race detector, they do nothing.
namespace counting {
#ifdef FOLIO_RACES
void begin_launch(uint64_t n_blocks, unsigned block_threads);
void begin_block(uint32_t block);
void end_block(size_t shared_bytes);
void barrier();
void meet(unsigned warp);  ///< called when all lanes of the warp have met
void shuffle();
void tile_product(unsigned multiply_adds);
void access(bool shared, bool store, const void* address, size_t bytes, const void* caller);
void basic_block(const void* caller);
void enter();  ///< called when the running thread enters a function
void leave();
#else
inline void begin_launch(uint64_t /*n_blocks*/, unsigned /*block_threads*/) {}
inline void begin_block(uint32_t /*block*/) {}
inline void end_block(size_t /*shared_bytes*/) {}
inline void barrier() {}
inline void meet(unsigned /*warp*/) {}
inline void shuffle() {}
inline void tile_product(unsigned /*multiply_adds*/) {}
#endif
}  // namespace counting

}  // namespace folio::infer::gpu::host
