// Absorbed latent attention: attention over a cache without keys and values. For each position t, the cache has
// a latent c_t (rank elements) and a rotated key part r_t (rope elements), which is the same for all heads. For a
// head's query q at the last position, the plain form computes the output y:
//
//     q = [q^C; q^R]  with q^C (nope) and q^R (rope), rotated at the query's position
//     k_t = [W_k c_t; r_t],  v_t = W_v c_t                      W_k: (nope, rank)    W_v: (v_dim, rank)
//     y = sum over t of softmax(q k_t / √(nope + rope)) v_t
//
// This computes a key and a value for each position. But q^C (W_k c) = (W_kᵀ q^C) c: the matrix can move to the query,
// and is then needed once instead of once for each position. The values' matrix moves out of the sum in the same way.
// RoPE would put a rotation by the position between q^C and W_k and prevent this, so only q^R and r_t are rotated.
//
// Example with rank = 2, nope = 1, W_k = (2 3) and q^C = 5: the absorbed query's part for latents is (10, 15). With c =
// (1, 1) both forms have the product 25: 5 * (2 + 3), and 10 + 15. Both divide by the same √(nope + rope).
//
// Check it with: make exercise N=absorbed. Then read experiments/25_latent/README.md.
#include <algorithm>
#include <cmath>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

// Returns a head's query for cache entries (rank + rope): the part for latents, then the rotated part. q (nope + rope)
// is the head's query before RoPE. rotated() in latent.h computes RoPE.
Floats absorbed_query(const LatentAttention& a, size_t head, const Floats& q, size_t position) {
  throw Unfilled(
      "absorbed_query is still to be written, in experiments/exercises/serving/absorbed.cpp.\n"
      "Two parts: the transpose of this head's W_k, times the first nope numbers of q; then the other numbers, "
      "rotated.");
}

// Returns the heads' outputs (n_heads, v_dim) at the last position of the cache (positions, rank + rope). Each entry is
// a latent followed by a rotated key part. q (n_heads, nope + rope): the last position's queries before RoPE.
Floats attend_to_latents(const LatentAttention& a, const Floats& q, const Floats& cache) {
  throw Unfilled(
      "absorbed_query is there; attend_to_latents is still to be written, in "
      "experiments/exercises/serving/absorbed.cpp.\n"
      "For each head: scores of its absorbed query with the cache's entries, a softmax, the weighted sum of the "
      "latents, "
      "and last this sum times W_v.");
}

}  // namespace folio::exercises
