// Appending to a KV cache. The keys and values of a position never change, so they are computed once and stored. The
// projections return a row per position of the step, in which all heads are contiguous:
//
//     k, v: (n_rows, n_kv_heads, head_dim)
//
// In the cache each head's positions are contiguous, because attention reads one head's keys in order:
//
//     keys, values: (n_kv_heads, capacity, head_dim)      row r goes to position length + r of every head
//
// Example with 2 heads of 1 element and a capacity of 4. Appending k = (1, 10) and then (2, 20) gives
//
//     keys = 1 2 . .   10 20 . .                          and length = 2
//
// If the rows don't fit, append throws and changes nothing.
//
// Check it with: make exercise N=kv_cache
#include <algorithm>
#include <stdexcept>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Appends rows to the cache (see serving.h). Throws std::length_error if the rows don't fit.
void append(KvCache& cache, const Floats& k, const Floats& v) {
  throw Unfilled(
      "append is still to be written, in experiments/exercises/serving/kv_cache.cpp.\n"
      "Go through the rows and the heads, and copy head_dim numbers from the one layout to the other. Then the length "
      "grows.");
}

}  // namespace folio::exercises
