// The subset of CUDA C++ in which kernels are written. nvcc compiles it for GPUs. Other compilers get the same names
// from tests/infer/cuda/host, where threads are fibers: this tests kernels without a GPU and reports errors that a GPU
// mostly tolerates. Results are bit-identical, because nvcc has -fmad=false, the host has -ffp-contract=off, and fused
// multiply-adds are explicit.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "kernel_host.h"  // in tests/infer/cuda/host, an include path of the tests
#endif

#include "infer/cuda/device.h"

namespace folio::infer::gpu {

inline constexpr unsigned kWarp = 32;              ///< threads per warp
inline constexpr unsigned kAllLanes = 0xFFFFFFFF;  ///< mask of a whole warp

/// Numbers of blocks in a launch, or of threads in a block.
struct Grid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

/// Sixteen bytes: the widest access of a thread.
struct alignas(16) Words {
  uint32_t w[4];
};

#ifdef __CUDACC__

// FOLIO_SHARED(float, sums, 32) declares an array in the block's shared memory. FOLIO_DYNAMIC_SHARED(name) declares the
// launch's dynamic shared memory, aligned to 16 bytes.
#define FOLIO_SHARED(type, name, count) __shared__ type name[count]
#define FOLIO_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

[[nodiscard]] __device__ inline Words load(const void* from) { return *static_cast<const Words*>(from); }
/// Loads memory that is read once and that this launch does not write, without keeping it in the L1 cache.
[[nodiscard]] __device__ inline Words load_once(const void* from) {
  Words v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "l"(from));
  return v;
}
__device__ inline void store(void* to, const Words& v) { *static_cast<Words*>(to) = v; }
/// Prefetches the 128-byte cache line that contains an address into the L2 cache.
__device__ inline void prefetch(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

/// Starts a copy of 16 bytes from global to shared memory (cp.async). It is complete for this thread after
/// wait_copies(), and for other threads after the next barrier.
__device__ inline void copy_async(void* shared, const void* global) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
      "l"(global)
      : "memory");
}
/// Commits this thread's copies so far as a group.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `pending` of this thread's committed copy groups are in flight.
template <int pending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Throws core::Error, with the kernel's name, if the launch failed.
void check_launch(const void* kernel);

/// Launches kernel<<<grid, block, shared_bytes, stream>>>(arguments...). Throws core::Error if it fails.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, Grid block, size_t shared_bytes, Stream& stream,
            Arguments... arguments) {
  // Above this, opts in to more than the default limit of 48 KB, which includes static shared memory.
  constexpr size_t kSharedWithoutOptIn = size_t{32} << 10U;
  if (shared_bytes > kSharedWithoutOptIn) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  }
  kernel<<<dim3(grid.x, grid.y, grid.z), dim3(block.x, block.y, block.z), shared_bytes,
           static_cast<cudaStream_t>(stream.handle())>>>(static_cast<Parameters>(arguments)...);
  check_launch(reinterpret_cast<const void*>(kernel));
}

#else

[[nodiscard]] Words load(const void* from);
[[nodiscard]] Words load_once(const void* from);
void store(void* to, const Words& v);
inline void prefetch(const void* /*from*/) {}
void copy_async(void* shared, const void* global);
void commit_copies();
template <int pending>
void wait_copies() {
  host::wait_copies(pending);
}

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, Grid block, size_t shared_bytes, Stream& stream,
            Arguments... arguments) {
  host::launch(stream, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes,
               [=] { kernel(static_cast<Parameters>(arguments)...); });
}

#endif

}  // namespace folio::infer::gpu
