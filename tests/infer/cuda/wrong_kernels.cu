#include "infer/cuda/mma.h"
#include "tests/infer/cuda/test_kernels.h"

namespace folio::infer::gpu::test {

__global__ void without_barrier(float* y, const float* x) {
  FOLIO_SHARED(float, tile, 1024);
  tile[threadIdx.x] = x[threadIdx.x];                   // no barrier before the read // place: missing barrier
  y[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];  // races with the writes // place: reads too early
}

__global__ void without_second_barrier(float* y, const float* x) {
  FOLIO_SHARED(float, tile, 1024);
  for (unsigned i = 0; i < 2; ++i) {
    tile[threadIdx.x] = x[i * blockDim.x + threadIdx.x];
    __syncthreads();
    y[i * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
  }
}

__global__ void without_warp_barrier(float* y, const float* x) {
  FOLIO_SHARED(float, tile, 1024);
  const unsigned i = threadIdx.x;
  tile[i] = x[i];
  const float mine = __shfl_xor_sync(kAllLanes, x[i], 1);     // a shuffle doesn't order memory accesses
  y[i] = mine + tile[i - lane_id() + kWarp - 1 - lane_id()];  // reads other lanes' writes // place: no warp barrier
}

__global__ void half_a_warp_barrier(float* y, const float* x) {
  FOLIO_SHARED(float, tile, 32);
  const unsigned i = threadIdx.x;
  tile[i] = x[i];
  __syncwarp(i < 16 ? 0x0000FFFFU : 0xFFFF0000U);
  y[i] = tile[31 - i];
}

__global__ void waits_after_barrier(Words* y, const Words* x) {
  FOLIO_SHARED(Words, tile, 32);
  copy_async(&tile[threadIdx.x], &x[threadIdx.x]);
  commit_copies();
  __syncthreads();
  wait_copies<0>();
  store(&y[threadIdx.x], load(&tile[31 - threadIdx.x]));
}

__global__ void without_any_copy_wait(Words* y, const Words* x) {
  FOLIO_SHARED(Words, tile, 32);
  copy_async(&tile[threadIdx.x], &x[threadIdx.x]);
  commit_copies();
  __syncthreads();
  store(&y[threadIdx.x], load(&tile[threadIdx.x]));
}

__global__ void with_late_copy_wait(Words* y, const Words* x) {
  FOLIO_SHARED(Words, tile, 32);
  copy_async(&tile[threadIdx.x], &x[threadIdx.x]);
  commit_copies();
  wait_copies<1>();
  __syncthreads();
  store(&y[threadIdx.x], load(&tile[threadIdx.x]));
  wait_copies<0>();
}

__global__ void without_barrier_after_copies(Words* y, const Words* x) {
  FOLIO_SHARED(Words, tile, 32);
  copy_async(&tile[threadIdx.x], &x[threadIdx.x]);
  commit_copies();
  wait_copies<0>();
  store(&y[threadIdx.x], load(&tile[31 - threadIdx.x]));
}

__global__ void barrier_in_branch(unsigned* out) {
  out[threadIdx.x] = 1;
  if (threadIdx.x < 40) __syncthreads();  // the other threads return // place: barrier in branch
}

__global__ void two_barriers(unsigned* out) {
  out[threadIdx.x] = 1;
  if (threadIdx.x < 40) {
    __syncthreads();  // threads 40 to 63 wait at another barrier // place: first barrier
  } else {
    __syncthreads();  // threads 0 to 39 wait at another barrier // place: second barrier
  }
}

__global__ void lane_outside_mask(unsigned* out) {
  out[threadIdx.x] = __shfl_xor_sync(0x0000FFFFU, threadIdx.x, 1);  // excludes lanes 16 to 31 // place: outside mask
}

__global__ void lane_that_returned(unsigned* out) {
  if (threadIdx.x == 31) return;
  out[threadIdx.x] = __shfl_xor_sync(kAllLanes, threadIdx.x, 1);  // waits for lane 31 // place: lane returned
}

__global__ void lanes_at_two_places(unsigned* out) {
  unsigned x = threadIdx.x;
  if (x < 16) {
    x = __shfl_xor_sync(kAllLanes, x, 1);  // waits for lanes 16 to 31 // place: first shuffle
  } else {
    x = __shfl_xor_sync(kAllLanes, x, 2);  // waits for lanes 0 to 15 // place: second shuffle
  }
  out[threadIdx.x] = x;
}

__global__ void lanes_with_two_masks(unsigned* out) {
  const unsigned mask = threadIdx.x < 16 ? 0x00FFFFFFU : 0xFFFFFF00U;
  out[threadIdx.x] = __shfl_xor_sync(mask, threadIdx.x, 1);  // half-warps pass different masks // place: two masks
}

__global__ void lane_at_barrier(unsigned* out) {
  if (threadIdx.x == 3) __syncthreads();                          // only lane 3 waits here // place: lonely barrier
  out[threadIdx.x] = __shfl_xor_sync(kAllLanes, threadIdx.x, 1);  // waits for lane 3 // place: stuck shuffle
}

__global__ void lane_not_in_block(unsigned* out) {
  out[threadIdx.x] = __shfl_xor_sync(kAllLanes, threadIdx.x, 1);  // the last warp has 16 lanes // place: short warp
}

__global__ void write_past_dynamic(float* out) {
  FOLIO_DYNAMIC_SHARED(bytes);
  auto* tile = reinterpret_cast<float*>(bytes);
  tile[threadIdx.x + 1] = 1.0F;  // the last thread writes past the end // place: past dynamic
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void read_past_dynamic(float* out) {
  FOLIO_DYNAMIC_SHARED(bytes);
  auto* tile = reinterpret_cast<float*>(bytes);
  tile[threadIdx.x] = 1.0F;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x + 1];
}

__global__ void read_before_array(float* out) {
  FOLIO_SHARED(float, first, 32);
  FOLIO_SHARED(float, second, 32);
  first[threadIdx.x] = 1.0F;
  second[threadIdx.x] = 1.0F;
  __syncthreads();
  const int index = static_cast<int>(threadIdx.x) - 1;
  out[threadIdx.x] = second[index];
}

__global__ void write_past_device_memory(float* out, unsigned n) {
  if (threadIdx.x == 0) out[n] = 1.0F;
}

__global__ void two_blocks_one_word(unsigned* out) {
  if (threadIdx.x == 0) out[0] = blockIdx.x;  // all blocks write one word // place: one word
}

__global__ void reads_other_block(unsigned* out) {
  if (threadIdx.x == 0) {
    out[blockIdx.x] = 7;
    out[gridDim.x + blockIdx.x] = out[(blockIdx.x + 1) % gridDim.x];
  }
}

__global__ void takes_turns(unsigned* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = atomicAdd(out + gridDim.x, 1U);
}

__global__ void joins_without_fence(unsigned* total, unsigned* parts, unsigned* done) {
  if (threadIdx.x != 0) return;
  parts[blockIdx.x] = blockIdx.x;
  if (atomicAdd(done, 1U) != gridDim.x - 1) return;
  *total = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) *total += parts[i];
}

__global__ void joins_before_barrier(unsigned* total, unsigned* parts, unsigned* done) {
  parts[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
  if (threadIdx.x == 0) {
    __threadfence();
    if (atomicAdd(done, 1U) == gridDim.x - 1) {
      *total = 0;
      for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) *total += parts[i];
    }
  }
}

__global__ void two_warps_one_word(unsigned* out) { out[threadIdx.x / 64] = 1; }

__global__ void resets_what_others_read(unsigned* out) {
  const unsigned x = out[0];  // no barrier before thread 0's write // place: read before reset
  if (threadIdx.x == 0) out[0] = 0;
  out[1 + threadIdx.x] = x;
}

__global__ void load_misaligned(float* out, const float* x) {
  const Words v = load(x + 1);
  out[threadIdx.x] = __builtin_bit_cast(float, v.w[0]);
}

}  // namespace folio::infer::gpu::test
