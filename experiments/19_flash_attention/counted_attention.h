// Causal attention of one head, twice, in a memory that counts: with all scores in the memory, and without.
// Both take the queries in tiles and the keys in blocks, so that they differ in the scores alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "experiments/19_flash_attention/counted_memory.h"

namespace folio::experiments {

/// Places in the memory, each (length, head_dim).
struct Head {
  size_t length, head_dim;
  size_t q, k, v, out;
};

/// Queries, keys and values uniform in [-1, 1).
[[nodiscard]] Head random_head(CountedMemory& memory, size_t length, size_t head_dim, uint64_t seed);

struct Tiles {
  size_t queries;  ///< that go through the keys together
  size_t keys;     ///< in a block
};

/// out = softmax(q kᵀ / √head_dim) v, through (length, length) numbers in memory. Returns how many numbers it kept
/// there beside its inputs and outputs.
size_t naive_attention(CountedMemory& memory, const Head& head, const Tiles& tiles);

/// The same, but a block's scores are used at once and then overwritten by the next block's.
size_t tiled_attention(CountedMemory& memory, const Head& head, const Tiles& tiles);

}  // namespace folio::experiments
