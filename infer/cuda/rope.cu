// Rotary positions (Su et al. 2021), and the way of keys and values into the cache; and copies of whole blocks of it.
//
// A block takes a row: its threads the pairs of the query's heads, then those of the key's, which they also store, then
// the numbers of the value. The two numbers of a pair are rotated by the angle of the row's position. Bytes: 8 a number
// of query and key, 4 of the value, 2 or 4 into the cache; the angles are shared by all heads and stay near. What a row
// stores is scattered, since the cache keeps the order of the products that read it (layout.h): a row is stored once
// and read by every token after it.
#include "infer/cuda/kernels.h"
#include "infer/cuda/numbers.h"

namespace folio::infer::gpu {
namespace {

constexpr unsigned kThreads = 256;

struct Rotated {
  float first;
  float second;
};

__device__ Rotated rotate(float first, float second, float cosine, float sine) {
  return {fmaf(first, cosine, second * -sine), fmaf(second, cosine, first * sine)};
}

__device__ void store_number(uint8_t* head, size_t index, bool half, float x) {
  if (half) {
    reinterpret_cast<uint16_t*>(head)[index] = to_f16(x);
  } else {
    reinterpret_cast<float*>(head)[index] = x;
  }
}

__global__ __launch_bounds__(kThreads) void rotate_and_store_rows(RowsView rows, Heads heads, const float* cosines,
                                                                  const float* sines, bool halves, float* query,
                                                                  float* key, const float* value, CacheView cache,
                                                                  size_t layer) {
  const size_t row = blockIdx.x;
  const size_t position = static_cast<size_t>(rows.positions[row]);
  const size_t pairs = heads.head_dim / 2;
  const size_t in_block = position % CacheView::kPositions;
  const auto block =
      static_cast<size_t>(rows.blocks[static_cast<size_t>(rows.tables[row]) + position / CacheView::kPositions]);
  cosines += position * pairs;
  sines += position * pairs;
  query += row * heads.n_heads * heads.head_dim;
  key += row * heads.n_kv_heads * heads.head_dim;
  value += row * heads.n_kv_heads * heads.head_dim;

  const size_t n_query_pairs = heads.n_heads * pairs;
  for (size_t i = threadIdx.x; i < n_query_pairs + heads.n_kv_heads * pairs; i += kThreads) {
    const bool is_key = i >= n_query_pairs;
    const size_t head = (is_key ? i - n_query_pairs : i) / pairs;
    const size_t pair = i % pairs;  // both parts are whole heads
    float* x = (is_key ? key : query) + head * heads.head_dim;
    const size_t d = halves ? pair : 2 * pair;
    const size_t e = halves ? pair + pairs : 2 * pair + 1;
    const Rotated r = rotate(x[d], x[e], cosines[pair], sines[pair]);
    x[d] = r.first;
    x[e] = r.second;
    if (!is_key) continue;
    uint8_t* keys = cache.data + cache.key_offset(block, layer, head);
    store_number(keys, cache.key_index(in_block, d), cache.half, r.first);
    store_number(keys, cache.key_index(in_block, e), cache.half, r.second);
  }
  for (size_t i = threadIdx.x; i < static_cast<size_t>(heads.n_kv_heads) * heads.head_dim; i += kThreads) {
    uint8_t* values = cache.data + cache.value_offset(block, layer, i / heads.head_dim);
    store_number(values, cache.value_index(in_block, i % heads.head_dim), cache.half, value[i]);
  }
}

__global__ __launch_bounds__(kThreads) void copy_cache_blocks(CacheView cache, const int32_t* pairs) {
  const size_t at = (static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x) * sizeof(Words);
  if (at >= cache.block_bytes()) return;
  const auto from = static_cast<size_t>(pairs[2 * blockIdx.y]);
  const auto to = static_cast<size_t>(pairs[2 * blockIdx.y + 1]);
  store(cache.data + to * cache.block_bytes() + at, load(cache.data + from * cache.block_bytes() + at));
}

}  // namespace

void rotate_and_store(Stream& stream, const RowsView& rows, const Heads& heads, const float* cosines,
                      const float* sines, bool halves, float* query, float* key, const float* value,
                      const CacheView& cache, size_t layer) {
  launch(rotate_and_store_rows, {rows.n_rows}, {kThreads}, 0, stream, rows, heads, cosines, sines, halves, query, key,
         value, cache, layer);
}

void copy_blocks(Stream& stream, const CacheView& cache, const int32_t* pairs, size_t n) {
  const size_t steps = ceil_div(cache.block_bytes(), kThreads * sizeof(Words));
  launch(copy_cache_blocks, {static_cast<unsigned>(steps), static_cast<unsigned>(n)}, {kThreads}, 0, stream, cache,
         pairs);
}

}  // namespace folio::infer::gpu
