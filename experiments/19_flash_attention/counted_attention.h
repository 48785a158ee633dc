// Causal attention of one head on a memory that counts transfers, in two versions: with a matrix of all scores, and
// block by block, as in FlashAttention. Both loop over the same tiles, so they differ only in where scores are stored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "experiments/19_flash_attention/counted_memory.h"

namespace folio::experiments {

/// One attention head: the offsets of q, k, v and out in the memory, each (length, head_dim).
struct Head {
  size_t length, head_dim;
  size_t q, k, v, out;
};

/// Allocates a head in `memory`, with queries, keys and values uniform in [-1, 1).
[[nodiscard]] Head random_head(CountedMemory& memory, size_t length, size_t head_dim, uint64_t seed);

struct Tiles {
  size_t queries;  ///< queries in a tile
  size_t keys;     ///< keys in a block
};

/// Computes out = softmax(q kᵀ / √head_dim) v with a (length, length) score matrix in memory. Returns the number of
/// elements allocated in addition to inputs and outputs.
size_t naive_attention(CountedMemory& memory, const Head& head, const Tiles& tiles);

/// Like naive_attention(), but stores only the scores of one query with one block of keys at a time.
size_t tiled_attention(CountedMemory& memory, const Head& head, const Tiles& tiles);

}  // namespace folio::experiments
