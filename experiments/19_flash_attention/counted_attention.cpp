#include "experiments/19_flash_attention/counted_attention.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/random.h"

namespace folio::experiments {
namespace {

// Calls visit(i, first, n) for each query i and each block of keys that i attends to. In that block, i attends to keys
// [first, first + n). Iterates over tiles of queries, then key blocks, then the queries of the tile.
void for_each_tile(size_t length, const Tiles& tiles, const std::function<void(size_t, size_t, size_t)>& visit) {
  for (size_t top = 0; top < length; top += tiles.queries) {
    const size_t bottom = std::min(length, top + tiles.queries);
    for (size_t first = 0; first < bottom; first += tiles.keys) {
      for (size_t i = std::max(top, first); i < bottom; ++i) visit(i, first, std::min(tiles.keys, i + 1 - first));
    }
  }
}

// Sets scores[j] = q_i · k_(first + j) / √head_dim for 0 <= j < n.
void score(CountedMemory& memory, const Head& h, size_t i, size_t first, size_t n, float* scores) {
  const float* q = memory.load(h.q + i * h.head_dim, h.head_dim);
  for (size_t j = 0; j < n; ++j) {
    const float* k = memory.load(h.k + (first + j) * h.head_dim, h.head_dim);
    float sum = 0.0F;
    for (size_t d = 0; d < h.head_dim; ++d) sum += q[d] * k[d];
    scores[j] = sum / std::sqrt(static_cast<float>(h.head_dim));
  }
}

// Adds Σ p[j] v_(first + j) over 0 <= j < n to `out`.
void add_values(CountedMemory& memory, const Head& h, float* out, const float* p, size_t first, size_t n) {
  for (size_t j = 0; j < n; ++j) {
    const float* v = memory.load(h.v + (first + j) * h.head_dim, h.head_dim);
    for (size_t d = 0; d < h.head_dim; ++d) out[d] += p[j] * v[d];
  }
}

// Returns the output of query i for updating. If `begins` is true, doesn't fetch its old content from memory.
float* output(CountedMemory& memory, const Head& h, size_t i, bool begins) {
  const size_t at = h.out + i * h.head_dim;
  return begins ? memory.store(at, h.head_dim) : memory.update(at, h.head_dim);
}

}  // namespace

Head random_head(CountedMemory& memory, size_t length, size_t head_dim, uint64_t seed) {
  const size_t n = length * head_dim;
  const Head head{.length = length,
                  .head_dim = head_dim,
                  .q = memory.allocate(n),
                  .k = memory.allocate(n),
                  .v = memory.allocate(n),
                  .out = memory.allocate(n)};
  for (const size_t at : {head.q, head.k, head.v}) {
    float* x = memory.uncounted(at);
    for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(2.0 * core::random_uniform(seed, at + i) - 1.0);
  }
  return head;
}

size_t naive_attention(CountedMemory& memory, const Head& h, const Tiles& tiles) {
  const size_t scores = memory.allocate(h.length * h.length);
  for_each_tile(h.length, tiles, [&](size_t i, size_t first, size_t n) {
    score(memory, h, i, first, n, memory.store(scores + i * h.length + first, n));
  });
  for (size_t i = 0; i < h.length; ++i) {  // softmax of each row
    float* p = memory.update(scores + i * h.length, i + 1);
    const float m = *std::max_element(p, p + i + 1);
    float l = 0.0F;
    for (size_t j = 0; j <= i; ++j) l += p[j] = std::exp(p[j] - m);
    for (size_t j = 0; j <= i; ++j) p[j] /= l;
  }
  for_each_tile(h.length, tiles, [&](size_t i, size_t first, size_t n) {
    const float* p = memory.load(scores + i * h.length + first, n);
    add_values(memory, h, output(memory, h, i, first == 0), p, first, n);
  });
  return h.length * h.length;
}

size_t tiled_attention(CountedMemory& memory, const Head& h, const Tiles& tiles) {
  const size_t scores = memory.allocate(tiles.keys);       // scores of one query with one block of keys
  const size_t sums = memory.allocate(2 * tiles.queries);  // maximum m and sum l of each query of a tile
  for_each_tile(h.length, tiles, [&](size_t i, size_t first, size_t n) {
    float* p = memory.store(scores, n);
    score(memory, h, i, first, n, p);
    const bool begins = first == 0;
    const bool ends = first + n == i + 1;
    float* ml = memory.update(sums + 2 * (i % tiles.queries), 2);
    float* out = output(memory, h, i, begins);
    const float m = std::max(begins ? p[0] : ml[0], *std::max_element(p, p + n));
    const float keep = begins ? 0.0F : std::exp(ml[0] - m);
    float l = begins ? 0.0F : ml[1] * keep;
    for (size_t j = 0; j < n; ++j) l += p[j] = std::exp(p[j] - m);
    for (size_t d = 0; d < h.head_dim; ++d) out[d] *= keep;
    add_values(memory, h, out, p, first, n);
    for (size_t d = 0; ends && d < h.head_dim; ++d) out[d] /= l;
    ml[0] = m;
    ml[1] = l;
  });
  return tiles.keys + 2 * tiles.queries;
}

}  // namespace folio::experiments
