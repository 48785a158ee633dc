// A KV cache that is written. The keys and values of a position never change, so they are computed once and kept. The
// rows of a step come as the projections make them, position by position, with all heads side by side:
//
//     k, v: (n_rows, n_kv_heads, head_dim)
//
// In the cache, a head's positions lie side by side, since attention goes through one head's keys in order:
//
//     keys, values: (n_kv_heads, capacity, head_dim)      row r goes to position length + r of every head
//
// For example 2 heads of 1 number and a capacity of 4. Appending k = (1, 10) and then (2, 20) gives
//
//     keys = 1 2 . .   10 20 . .                          and length = 2
//
// Rows that no longer fit are refused, and then nothing is changed.
//
// Check it with: make exercise N=kv_cache
#include <algorithm>
#include <stdexcept>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// KvCache is in serving.h. Throws std::length_error if the cache has no place for all rows.
void append(KvCache& cache, const Floats& k, const Floats& v) {
  throw Unfilled(
      "append is still to be written, in experiments/exercises/serving/kv_cache.cpp.\n"
      "Go through the rows and the heads, and copy head_dim numbers from the one layout to the other. Then the length "
      "grows.");
}

}  // namespace folio::exercises
