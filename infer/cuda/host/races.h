// The race detector's side of the emulator. In the library folio_cuda_races, what kernels are compiled to with
// -fsanitize=thread calls it for every access; elsewhere these functions are empty.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::infer::gpu::host::races {

#ifdef FOLIO_RACES

void begin_launch(uint64_t n_blocks);
void end_launch();
void begin_block();
void end_block();  ///< throws core::Error, the first that was found in the block
void barrier();
void sync_warp(unsigned warp, uint32_t mask);
void fence();
void read(const void* address, size_t bytes, const void* caller);
void write(const void* address, size_t bytes, const void* caller);
void atomic(const void* address, size_t bytes, const void* caller);
/// A range of device memory comes or goes.
void allocated(const void* address, size_t bytes);
void freed(const void* address);

#else

inline void begin_launch(uint64_t /*n_blocks*/) {}
inline void end_launch() {}
inline void begin_block() {}
inline void end_block() {}
inline void barrier() {}
inline void sync_warp(unsigned /*warp*/, uint32_t /*mask*/) {}
inline void fence() {}
inline void read(const void* /*address*/, size_t /*bytes*/, const void* /*caller*/) {}
inline void write(const void* /*address*/, size_t /*bytes*/, const void* /*caller*/) {}
inline void atomic(const void* /*address*/, size_t /*bytes*/, const void* /*caller*/) {}
inline void allocated(const void* /*address*/, size_t /*bytes*/) {}
inline void freed(const void* /*address*/) {}

#endif

}  // namespace folio::infer::gpu::host::races
