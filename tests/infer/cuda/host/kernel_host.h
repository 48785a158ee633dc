// Declares the functions of kernel.h for kernels that a host compiler builds and the emulator (emulator.h) runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

namespace folio::infer::gpu {

class Stream;

namespace host {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};

/// The indices of an emulated CUDA thread, as threadIdx, blockIdx, blockDim and gridDim.
struct Thread {
  Index thread_index;
  Index block_index;
  Index block_size;
  Index grid_size;
};
extern constinit thread_local const Thread* running_thread;
[[nodiscard]] inline const Thread& thread() { return *running_thread; }

/// Runs the kernel now, or records it if the stream is recording.
void launch(Stream& stream, Index grid, Index block, size_t shared_bytes, std::function<void()> kernel);

/// Returns the block's shared array that is declared at `at`. The first thread that arrives creates it with exactly
/// this length, filled with NaN, between red zones.
[[nodiscard]] void* shared_array(size_t element_bytes, size_t count, std::source_location at);
[[nodiscard]] unsigned char* dynamic_shared();

using Lanes = std::array<void*, 32>;  ///< a pointer of each lane of a warp

void wait_copies(int pending);

/// Returns std::fmaf(a, b, c), and counts it (counts.h). Kernels compiled with FOLIO_COUNTS call it through numbers.h.
[[nodiscard]] float fmaf(float a, float b, float c);

}  // namespace host

#define threadIdx (::folio::infer::gpu::host::thread().thread_index)
#define blockIdx (::folio::infer::gpu::host::thread().block_index)
#define blockDim (::folio::infer::gpu::host::thread().block_size)
#define gridDim (::folio::infer::gpu::host::thread().grid_size)

#define FOLIO_SHARED(type, name, count)  \
  type* const name = static_cast<type*>( \
      ::folio::infer::gpu::host::shared_array(sizeof(type), count, std::source_location::current()))
#define FOLIO_DYNAMIC_SHARED(name) unsigned char* const name = ::folio::infer::gpu::host::dynamic_shared()

// CUDA's built-in functions, in the same namespace as the kernels.
void __syncthreads(std::source_location at = std::source_location::current());
void __syncwarp(unsigned mask = 0xFFFFFFFFU, std::source_location at = std::source_location::current());
/// Shuffles: return the `value` that another lane passed. T must have 4 or 8 bytes.
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, std::source_location at = std::source_location::current());
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, std::source_location at = std::source_location::current());
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, std::source_location at = std::source_location::current());
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, std::source_location at = std::source_location::current());
void __threadfence();
/// Atomics exist only for integers: sums of floats would depend on the order of the blocks.
unsigned atomicAdd(unsigned* at, unsigned value);
unsigned long long atomicAdd(unsigned long long* at, unsigned long long value);
unsigned atomicMax(unsigned* at, unsigned value);
unsigned long long atomicMax(unsigned long long* at, unsigned long long value);

}  // namespace folio::infer::gpu

#include "tests/infer/cuda/host/shuffles.h"
