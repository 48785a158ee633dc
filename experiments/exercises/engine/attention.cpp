// Causal attention with a KV cache. There are n_positions keys and values, and queries for the last n_queries
// positions: query r is at position t = n_positions - n_queries + r and attends to positions 0 … t. In each head:
//
//     score_j  = (query · key_j) / sqrt(head_dim)           for j = 0 … t
//     weight_j = exp(score_j - m) / sum of all exp(score_j - m)      m: the largest score, to avoid overflow
//     out      = sum over j of weight_j * value_j
//
// There may be fewer key/value heads than query heads (grouped-query attention). Then n_heads / n_kv_heads consecutive
// query heads share a key/value head. With 4 query heads and 2 key/value heads, query heads 0 and 1 read key/value head
// 0, and query heads 2 and 3 read key/value head 1.
//
// Read first: experiments/06_causal_mask/README.md, experiments/07_heads/README.md.
// Check it with: make exercise N=engine/attention
#include <algorithm>
#include <cmath>
#include <vector>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

// Writes the outputs to out. q and out: (n_queries, n_heads, head_dim). k and v: (n_positions, n_kv_heads, head_dim).
void attention(const float* q, const float* k, const float* v, const AttentionShape& shape, float* out) {
  throw Unfilled(
      "attention is still to be written, in experiments/exercises/engine/attention.cpp.\n"
      "For each query and head: the scores of the positions that it sees, their softmax, the weighted sum of the "
      "values.");
}

}  // namespace folio::exercises
