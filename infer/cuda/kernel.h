// What the kernels are written in: CUDA C++, of which only what stands here is used. nvcc compiles it for a GPU. Any
// other compiler gets the same words from tests/infer/cuda/host, where a fiber is a thread: so the kernels are tested
// on machines without a GPU, and what a GPU would forgive most of the time is an error there.
//
// Both give the same bits: nvcc gets -fmad=false, the host -ffp-contract=off, and fused multiply-adds are written out.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "kernel_host.h"  // of the tests, which give the folder
#endif

#include "infer/cuda/device.h"

namespace folio::infer::gpu {

inline constexpr unsigned kWarp = 32;              ///< threads that run in step
inline constexpr unsigned kAllLanes = 0xFFFFFFFF;  ///< the mask of a whole warp

/// Blocks of a launch, or threads of a block.
struct Grid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

/// Sixteen bytes: what a thread moves at once.
struct alignas(16) Words {
  uint32_t w[4];
};

#ifdef __CUDACC__

// FOLIO_SHARED(float, sums, 32): an array of the block's shared memory. FOLIO_DYNAMIC_SHARED(name): the bytes whose
// number the launch says, aligned to 16.
#define FOLIO_SHARED(type, name, count) __shared__ type name[count]
#define FOLIO_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

[[nodiscard]] __device__ inline Words load(const void* from) { return *static_cast<const Words*>(from); }
/// Of memory that no kernel of this launch writes and that is read once: it doesn't stay in the L1 cache.
[[nodiscard]] __device__ inline Words load_once(const void* from) {
  Words v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "l"(from));
  return v;
}
__device__ inline void store(void* to, const Words& v) { *static_cast<Words*>(to) = v; }
/// Asks for the 128 bytes around an address, into the L2 cache.
__device__ inline void prefetch(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

/// Copies 16 bytes from global to shared memory, on their way until this thread's wait_copies(); the other threads see
/// them after a barrier behind it.
__device__ inline void copy_async(void* shared, const void* global) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
      "l"(global)
      : "memory");
}
/// Ends a batch of this thread's copies.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `pending` of this thread's last batches are still on their way.
template <int pending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Throws core::Error, with the kernel's name, if the launch failed.
void check_launch(const void* kernel);

/// kernel<<<grid, block, shared_bytes, stream>>>(args...). Throws core::Error.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, Grid block, size_t shared_bytes, Stream& stream,
            Arguments... arguments) {
  constexpr size_t kWithoutAsking = size_t{48} << 10U;
  if (shared_bytes > kWithoutAsking) {
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
