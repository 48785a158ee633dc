// The race detector. In the library folio_cuda_races, kernels are compiled with -fsanitize=thread, and what that calls
// for every access (tsan.cpp) comes here; elsewhere these functions are empty. Shared memory is watched by thread
// (shared_races.h), device memory by block (device_races.h). The first fault of a block ends its launch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::infer::gpu::host::races {

#ifdef FOLIO_RACES

void begin_launch();
void end_launch();
void begin_block(uint32_t block);  ///< its number in the grid
void end_block();                  ///< throws core::Error, the first that was found in the block
void barrier();
void sync_warp(unsigned warp, uint32_t mask);
void fence();
// By the thread that runs; `caller` is the address of its code.
void read(const void* address, size_t bytes, const void* caller);
void write(const void* address, size_t bytes, const void* caller);
void atomic(const void* address, size_t bytes, const void* caller);
// Device memory comes and goes.
void allocated(const void* address, size_t bytes);
void freed(const void* address);

inline constexpr size_t kRedZone = 256;  ///< around device memory

#else

inline void begin_launch() {}
inline void end_launch() {}
inline void begin_block(uint32_t /*block*/) {}
inline void end_block() {}
inline void barrier() {}
inline void sync_warp(unsigned /*warp*/, uint32_t /*mask*/) {}
inline void fence() {}
inline void read(const void* /*address*/, size_t /*bytes*/, const void* /*caller*/) {}
inline void write(const void* /*address*/, size_t /*bytes*/, const void* /*caller*/) {}
inline void atomic(const void* /*address*/, size_t /*bytes*/, const void* /*caller*/) {}
inline void allocated(const void* /*address*/, size_t /*bytes*/) {}
inline void freed(const void* /*address*/) {}

inline constexpr size_t kRedZone = 0;

#endif

}  // namespace folio::infer::gpu::host::races
