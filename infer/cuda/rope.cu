// Applies RoPE (Su et al. 2021), stores keys and values in the KV cache, and copies cache blocks. Memory traffic: 8
// bytes per element of query and key, 4 per element of value, and 2 or 4 per element stored in the KV cache; all heads
// share the angles. The stores are scattered, because the KV cache has the tile layout for the tensor cores (layout.h).
#include "infer/cuda/block.h"
#include "infer/cuda/kernels.h"
#include "infer/cuda/numbers.h"

namespace folio::infer::gpu {
namespace {

struct Rotated {
  float first;
  float second;
};

__device__ Rotated rotate(float first, float second, float cosine, float sine) {
  return {fmaf(first, cosine, second * -sine), fmaf(second, cosine, first * sine)};
}

template <bool kHalf>
__device__ void store_number(uint8_t* head, size_t index, float x) {
  if constexpr (kHalf) {
    reinterpret_cast<uint16_t*>(head)[index] = to_f16(x);
  } else {
    reinterpret_cast<float*>(head)[index] = x;
  }
}

// Arguments of rotate_rows(): `query` and `key` are rotated in place, and keys and values are stored in `cache`.
struct Rotation {
  RowsView rows;
  Heads heads;
  Angles angles;
  float* query;
  float* key;
  const float* value;
  CacheView cache;
  size_t layer;
};

// Processes every step-th unit of a row from `first` on. A unit is a rotated pair or an element that isn't rotated.
template <bool kHalf>
__device__ void rotate_row(const Rotation& r, size_t row, uint32_t first, uint32_t step) {
  const Heads& heads = r.heads;
  CacheView cache = r.cache;
  cache.half = kHalf;  // a compile-time constant, so that offsets need shifts, not divisions
  const size_t position = static_cast<size_t>(r.rows.positions[row]);
  const uint32_t pairs = r.angles.rotated / 2;
  const size_t in_block = position % CacheView::kPositions;
  const auto block =
      static_cast<size_t>(r.rows.blocks[static_cast<size_t>(r.rows.tables[row]) + position / CacheView::kPositions]);
  const float* cosines = r.angles.cosines + position * pairs;
  const float* sines = r.angles.sines + position * pairs;
  float* query = r.query + row * heads.n_heads * heads.head_dim;
  const uint32_t key_dim = cache.head_dim;
  float* key = r.key + row * heads.n_kv_heads * key_dim;
  const bool latent = cache.latent_rank > 0;
  const uint32_t first_of_query = latent ? heads.head_dim - r.angles.rotated : 0;  // the first dimension with RoPE
  const uint32_t first_of_key = latent ? cache.latent_rank : 0;

  const uint32_t n_query_pairs = heads.n_heads * pairs;
  for (uint32_t i = first; i < n_query_pairs + heads.n_kv_heads * pairs; i += step) {
    const bool is_key = i >= n_query_pairs;
    const uint32_t head = (is_key ? i - n_query_pairs : i) / pairs;
    const uint32_t pair = i % pairs;  // also correct for keys, since n_query_pairs is a multiple of `pairs`
    float* x = is_key ? key + head * key_dim + first_of_key : query + head * heads.head_dim + first_of_query;
    const uint32_t d = r.angles.halves ? pair : 2 * pair;
    const uint32_t e = r.angles.halves ? pair + pairs : 2 * pair + 1;
    const Rotated turned = rotate(x[d], x[e], cosines[pair], sines[pair]);
    x[d] = turned.first;
    x[e] = turned.second;
    if (!is_key) continue;
    uint8_t* keys = cache.data + cache.key_offset(block, r.layer, head);
    store_number<kHalf>(keys, cache.key_index(in_block, first_of_key + d), turned.first);
    store_number<kHalf>(keys, cache.key_index(in_block, first_of_key + e), turned.second);
  }
  const uint32_t rest = key_dim - r.angles.rotated;  // unrotated dimensions of a key
  for (uint32_t i = first; i < heads.n_kv_heads * rest; i += step) {
    const uint32_t head = i / rest;
    const uint32_t d = (latent ? 0 : r.angles.rotated) + i % rest;
    store_number<kHalf>(cache.data + cache.key_offset(block, r.layer, head), cache.key_index(in_block, d),
                        key[head * key_dim + d]);
  }
  if (latent) return;
  const float* value = r.value + row * heads.n_kv_heads * heads.head_dim;
  for (uint32_t i = first; i < heads.n_kv_heads * heads.head_dim; i += step) {
    uint8_t* values = cache.data + cache.value_offset(block, r.layer, i / heads.head_dim);
    store_number<kHalf>(values, cache.value_index(in_block, i % heads.head_dim), value[i]);
  }
}

// One thread per pair: adjacent threads access adjacent memory, and latencies overlap. A row has as many blocks as its
// pairs need.
template <bool kHalf>
__global__ __launch_bounds__(kBlockThreads) void rotate_rows(const __grid_constant__ Rotation r) {
  rotate_row<kHalf>(r, blockIdx.y, blockIdx.x * kBlockThreads + threadIdx.x, gridDim.x * kBlockThreads);
}

__global__ __launch_bounds__(kBlockThreads) void copy_cache_blocks(CacheView cache, const int32_t* pairs) {
  const size_t at = (static_cast<size_t>(blockIdx.x) * kBlockThreads + threadIdx.x) * sizeof(Words);
  if (at >= cache.block_bytes()) return;
  const auto from = static_cast<size_t>(pairs[2 * blockIdx.y]);
  const auto to = static_cast<size_t>(pairs[2 * blockIdx.y + 1]);
  store(cache.data + to * cache.block_bytes() + at, load(cache.data + from * cache.block_bytes() + at));
}

}  // namespace

void rotate_and_store(Stream& stream, const RowsView& rows, const Heads& heads, const Angles& angles, float* query,
                      float* key, const float* value, const CacheView& cache, size_t layer) {
  const Rotation rotation{rows, heads, angles, query, key, value, cache, layer};
  const uint32_t pairs = (heads.n_heads + heads.n_kv_heads) * heads.head_dim / 2;
  const Grid grid{static_cast<unsigned>(ceil_div(pairs, kBlockThreads)), rows.n_rows};
  launch(cache.half ? rotate_rows<true> : rotate_rows<false>, grid, {kBlockThreads}, 0, stream, rotation);
}

void copy_blocks(Stream& stream, const CacheView& cache, const int32_t* pairs, size_t n) {
  const size_t steps = ceil_div(cache.block_bytes(), kBlockThreads * sizeof(Words));
  launch(copy_cache_blocks, {static_cast<unsigned>(steps), static_cast<unsigned>(n)}, {kBlockThreads}, 0, stream, cache,
         pairs);
}

}  // namespace folio::infer::gpu
