// Attention of a sequence's last positions (rows) over its cache, in simple loops: grouped-query attention, and latent
// attention (MLA) in the plain and the absorbed form. The functions add the work done to `work`. Arrays are row-major.
// The cache includes the rows' own positions. A row attends to its own position and to all earlier ones.
#pragma once

#include <cstdint>
#include <vector>

namespace folio::experiments {

using Floats = std::vector<float>;

/// Counts of multiply-adds, and of elements read or written in weights, cache, and temporary keys and values. A call
/// counts an array once if it reads it, and once if it writes it, however often its loops access it.
struct Work {
  int64_t multiply_adds = 0, elements = 0;
  bool operator==(const Work&) const = default;
};

struct Grouped {
  int64_t n_heads, n_kv_heads, head_dim;
};

/// Latent attention. A position's cache entry is its latent c (rank) and the rotated part r of its key (rope), which is
/// the same for all heads. A head's key has `nope` elements without RoPE, then r; its value has `value` elements.
struct Latent {
  int64_t n_heads, rank, nope, rope, value;
  Floats wk;  ///< (n_heads, nope, rank): maps c to a head's key without RoPE
  Floats wv;  ///< (n_heads, value, rank): maps c to a head's value
};

/// Returns (rows, n_heads, head_dim) for rotated queries q (rows, n_heads, head_dim). The cache is (positions, 2,
/// n_kv_heads, head_dim): keys, then values.
[[nodiscard]] Floats grouped(const Grouped& a, const Floats& q, const Floats& cache, Work& work);

/// Returns (rows, n_heads, value) for queries q (rows, n_heads, nope + rope), whose last `rope` elements are rotated.
/// The cache is (positions, rank + rope). plain() computes the keys and values of all heads from the cache; absorbed()
/// never does. Source: DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1.2.
[[nodiscard]] Floats plain(const Latent& a, const Floats& q, const Floats& cache, Work& work);
[[nodiscard]] Floats absorbed(const Latent& a, const Floats& q, const Floats& cache, Work& work);

/// Returns the work of plain() or absorbed() by formula, for `rows` rows after `n_cached` cached positions.
[[nodiscard]] Work plain_work(const Latent& a, int64_t n_cached, int64_t rows);
[[nodiscard]] Work absorbed_work(const Latent& a, int64_t n_cached, int64_t rows);

/// Returns the smallest number of rows for which plain() has fewer multiply-adds than absorbed().
[[nodiscard]] int64_t crossing(const Latent& a, int64_t n_cached);

}  // namespace folio::experiments
