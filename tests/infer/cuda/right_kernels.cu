#include "tests/infer/cuda/test_kernels.h"

namespace folio::infer::gpu::test {

__global__ void scale(float* x, float by, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}

/// Returns the sum of the block's elements of x (n) to thread 0. Other threads get partial sums.
__device__ inline unsigned sum_of_block(const unsigned* x, unsigned n) {
  FOLIO_SHARED(unsigned, of_warp, 32);
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = i < n ? x[i] : 0;
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(kAllLanes, sum, by);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x < kWarp) {
    sum = threadIdx.x < blockDim.x / kWarp ? of_warp[threadIdx.x] : 0;
    for (unsigned by = 16; by > 0; by /= 2) sum += __shfl_down_sync(kAllLanes, sum, by);
  }
  return sum;
}

__global__ void sum_blocks(unsigned* sums, const unsigned* x, unsigned n) {
  const unsigned sum = sum_of_block(x, n);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void reverse_blocks(float* y, const float* x) {
  FOLIO_DYNAMIC_SHARED(bytes);
  auto* tile = reinterpret_cast<float*>(bytes);
  const unsigned n = blockDim.x;
  const unsigned first = blockIdx.x * n;
  tile[threadIdx.x] = x[first + threadIdx.x];
  __syncthreads();
  y[first + threadIdx.x] = tile[n - 1 - threadIdx.x];
}

__global__ void sum_all(unsigned* total, unsigned* parts, unsigned* done, const unsigned* x, unsigned n) {
  FOLIO_SHARED(unsigned, is_last, 1);
  const unsigned part = sum_of_block(x, n);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = part;
    __threadfence();
    *is_last = atomicAdd(done, 1U) == gridDim.x - 1 ? 1U : 0U;
  }
  __syncthreads();
  if (*is_last == 1 && threadIdx.x == 0) {
    __threadfence();
    unsigned sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += parts[i];
    *total = sum;
    *done = 0;
  }
}

__global__ void joins(unsigned* total, unsigned* parts, unsigned* done) {
  parts[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(done, 1U) != gridDim.x - 1) return;
  *total = 0;
  for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) *total += parts[i];
}

__global__ void joins_with_own_fences(unsigned* total, unsigned* parts, unsigned* done) {
  FOLIO_SHARED(unsigned, is_last, 1);
  parts[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) *is_last = atomicAdd(done, 1U) == gridDim.x - 1 ? 1U : 0U;
  __syncthreads();
  if (*is_last == 0) return;
  unsigned sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x * blockDim.x; i += blockDim.x) sum += parts[i];
  atomicAdd(total, sum);
}

__global__ void copy_tiles(Words* y, const Words* x) {
  constexpr unsigned kTiles = 4;
  FOLIO_DYNAMIC_SHARED(bytes);
  auto* tiles = reinterpret_cast<Words*>(bytes);  // (2, blockDim.x)
  const unsigned n = blockDim.x;
  const unsigned first = blockIdx.x * kTiles * n;
  copy_async(&tiles[threadIdx.x], &x[first + threadIdx.x]);
  commit_copies();
  for (unsigned tile = 0; tile < kTiles; ++tile) {
    if (tile + 1 < kTiles) {
      copy_async(&tiles[(tile + 1) % 2 * n + threadIdx.x], &x[first + (tile + 1) * n + threadIdx.x]);
    }
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    const unsigned other = n - 1 - threadIdx.x;  // an element that another thread copied
    store(&y[first + tile * n + other], load(&tiles[tile % 2 * n + other]));
    __syncthreads();
  }
}

__global__ void warp_words(unsigned* out) {
  const unsigned lane = lane_id();
  unsigned* mine = out + lane * 7;
  mine[0] = __shfl_sync(kAllLanes, lane * 10, 5);
  mine[1] = __shfl_xor_sync(kAllLanes, lane * 10, 3);
  mine[2] = __shfl_down_sync(kAllLanes, lane * 10, 4);
  mine[3] = __shfl_up_sync(kAllLanes, lane * 10, 4);
  mine[4] = __ballot_sync(kAllLanes, lane % 2 == 1);
  mine[5] = __any_sync(kAllLanes, lane == 7) ? 1 : 0;
  mine[6] = __all_sync(kAllLanes, lane == 7) ? 1 : 0;
}

__global__ void halves(unsigned* out) {
  const unsigned lane = lane_id();
  unsigned x = lane;
  if (lane < 16) {
    for (int i = 0; i < 3; ++i) x = __shfl_xor_sync(0x0000FFFFU, x, 1);
  } else {
    x = __shfl_xor_sync(0xFFFF0000U, x, 2);
    x = static_cast<unsigned>(__shfl_xor_sync(0xFFFF0000U, static_cast<uint64_t>(x) << 32U, 4) >> 32U);
  }
  __syncwarp();
  out[lane] = __shfl_xor_sync(kAllLanes, x, 16);
}

__global__ void reverse_warps(float* y, const float* x) {
  FOLIO_SHARED(float, tile, 1024);
  const unsigned i = threadIdx.x;
  tile[i] = x[i];
  __syncwarp();
  y[i] = tile[i - lane_id() + kWarp - 1 - lane_id()];
}

__global__ void indices(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000000 * block + thread;
}

__global__ void shuffle_many(float* out, unsigned n) {
  auto x = static_cast<float>(threadIdx.x);
  for (unsigned i = 0; i < n; ++i) x = __shfl_xor_sync(kAllLanes, x, 1) + 1.0F;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void multiply_many(float* out, unsigned n) {
  const TileA a{{threadIdx.x, 0x3C003C00U, 0x3C003C00U, 0x3C003C00U}};
  const TileB b{{0x3C003C00U, threadIdx.x}};
  Sums sums{};
  for (unsigned i = 0; i < n; ++i) multiply_f16(sums, a, b);
  out[blockIdx.x * blockDim.x + threadIdx.x] = sums.c[0];
}

__global__ void multiply(Kind kind, uint32_t* c, const uint32_t* a, const uint32_t* b) {
  const unsigned lane = lane_id();
  TileA tile_a;
  TileB tile_b;
  for (unsigned i = 0; i < 4; ++i) tile_a.w[i] = a[lane * 4 + i];
  for (unsigned i = 0; i < 2; ++i) tile_b.w[i] = b[lane * 2 + i];
  Sums sums;
  IntSums whole;
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t word = c[lane * 4 + i];
    sums.c[i] = __builtin_bit_cast(float, word);
    whole.c[i] = static_cast<int32_t>(word);
  }
  switch (kind) {
    case Kind::kF16:
      multiply_f16(sums, tile_a, tile_b);
      break;
    case Kind::kBf16:
      multiply_bf16(sums, tile_a, tile_b);
      break;
    case Kind::kTf32:
      multiply_tf32(sums, tile_a, tile_b);
      break;
    case Kind::kS8:
      multiply_s8(whole, tile_a, tile_b);
      break;
    case Kind::kS8Half:
      multiply_s8_half(whole, tile_a, tile_b, 0);
      multiply_s8_half(whole, tile_a, tile_b, 1);
      break;
  }
  const bool is_whole = kind == Kind::kS8 || kind == Kind::kS8Half;
  for (unsigned i = 0; i < 4; ++i) {
    c[lane * 4 + i] = is_whole ? static_cast<uint32_t>(whole.c[i]) : __builtin_bit_cast(uint32_t, sums.c[i]);
  }
}

}  // namespace folio::infer::gpu::test
