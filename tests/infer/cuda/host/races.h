// The race detector. In the library folio_cuda_races, kernels are compiled with -fsanitize=thread, whose hooks for
// every access (tsan.cpp) call these functions. In other builds, they do nothing. Shared memory is checked per
// thread (shared_races.h), device memory per block (device_races.h). The first error of a block ends its launch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::infer::gpu::host::races {

#ifdef FOLIO_RACES

void begin_launch();
void end_launch();
void begin_block(uint32_t block);  ///< `block`: linear index in the grid
void end_block();                  ///< throws the block's first error, if any, as core::Error
void barrier();
void sync_warp(unsigned warp, uint32_t mask);
void fence();
// Record accesses of the running thread. `caller` is the address of the accessing code.
void read(const void* address, size_t bytes, const void* caller);
void write(const void* address, size_t bytes, const void* caller);
void atomic(const void* address, size_t bytes, const void* caller);
// Record that device memory was allocated or freed.
void allocated(const void* address, size_t bytes);
void freed(const void* address);

inline constexpr size_t kRedZone = 256;  ///< bytes before and after each device allocation

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
