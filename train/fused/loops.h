// CPU kernels of the fused modules, compiled once per instruction set (loop_table.cpp); loops() returns the table for
// this machine. Formulas and derivations of the backward passes are in loop_table.cpp, attention_body.h and
// dropout_body.h. A row is one token's vector; rows are contiguous. Sums have a fixed order, so results are
// reproducible bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "core/families.h"
#include "core/isa.h"

namespace folio::train::fused {

/// bfloat16, the upper half of a float's bits; same layout as torch::kBFloat16.
struct BFloat16 {
  uint16_t bits;
};

/// Accumulator type for values of type T, and the type of the residual stream and of norm weights.
template <typename T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Dropout whose mask is a hash of a key and an element's row and column (dropout_body.h). No mask is stored.
struct Dropout {
  uint64_t key = 0;
  uint32_t threshold = 0;  ///< dropout probability times 2³²; 0: no dropout
  double scale = 1.0;      ///< factor of kept elements: 1 / (1 - probability)

  [[nodiscard]] bool on() const { return threshold > 0; }
};
/// Creates a Dropout with `probability` in [0, 1). Different `site` values give independent masks for the same key.
[[nodiscard]] Dropout make_dropout(double probability, uint64_t key, uint64_t site);

/// Shape of an attention operation. A row of `qkv` holds all heads' queries, keys and values of one token.
struct AttentionShape {
  size_t n_positions;  ///< positions per sequence
  size_t n_heads;      ///< query heads
  size_t n_kv_heads;   ///< key/value heads; divides n_heads
  size_t head_dim;     ///< dimensions per head
  size_t window;       ///< sliding window: position t attends to t - window + 1 .. t; 0: no window
  /// [sequences, n_positions]: the first position that each position attends to, non-decreasing within a sequence
  /// (starts in modules/mask.h). Null: 0 for all positions.
  const int64_t* starts;
  core::RopePairs pairs;

  [[nodiscard]] size_t qkv_dim() const { return (n_heads + 2 * n_kv_heads) * head_dim; }
  [[nodiscard]] size_t query_dim() const { return n_heads * head_dim; }
};

/// The kernel table for activations of type T (BFloat16, float or double). The residual stream has type Real<T>.
template <typename T>
struct Loops {
  using R = Real<T>;

  /// Computes y = x · inverse_rms ⊙ weight for rows x [n, dim], and inverse_rms [n] = 1 / sqrt(mean(x²) + eps).
  void (*rms_norm)(const R* x, const R* weight, double eps, size_t n, size_t dim, T* y, R* inverse_rms);
  /// Sets dx = dstream + gradient of x, where dstream is the residual stream's gradient and may alias dx. Adds the
  /// gradient of weight to dweight [dim].
  void (*rms_norm_backward)(const T* dy, const R* x, const R* weight, const R* inverse_rms, size_t n, size_t dim,
                            const R* dstream, R* dx, R* dweight);

  /// Computes out = x + dropout(y) for n rows. The dropout mask depends on the rows' indices, which begin at `first`.
  void (*add)(const R* x, const T* y, const Dropout& dropout, size_t first, size_t n, size_t dim, R* out);
  /// Computes dy = dropout(dout), the gradient of y in add(). Without dropout it only converts the type.
  void (*drop)(const R* dout, const Dropout& dropout, size_t first, size_t n, size_t dim, T* dy);

  /// Applies RoPE in place to the queries and keys of rows [n, qkv_dim], or its inverse. Row i has position (first + i)
  /// mod n_positions in cos and sin [positions, head_dim / 2].
  void (*rotate)(T* qkv, const AttentionShape& shape, const R* cos, const R* sin, bool inverse, size_t first, size_t n);

  /// Computes y [n, dim] = weight [n] ⊙ silu(gate) ⊙ up; without the factor weight if that is null. `stride` is the row
  /// stride of gate and up.
  void (*swiglu)(const T* gate, const T* up, size_t stride, const R* weight, size_t n, size_t dim, T* y);
  /// Computes dgate and dup (strided like gate and up) from dy, and computes y again. If weight is not null, also
  /// computes dweight [n].
  void (*swiglu_backward)(const T* dy, const T* gate, const T* up, size_t stride, const R* weight, size_t n, size_t dim,
                          T* dgate, T* dup, T* y, R* dweight);
  /// Computes row i of out [n, dim] as the sum of those rows of x whose indices are in row i of `rows` [n, n_summed].
  void (*sum_rows)(const T* x, const int64_t* rows, size_t n, size_t n_summed, size_t dim, R* out);

  /// Computes losses [n], -log softmax(logits)[target] for each row of logits [n, n_classes]. If `scale` is not 0,
  /// overwrites the logits with the gradient of the losses' sum, times scale.
  void (*cross_entropy)(T* logits, const int64_t* targets, size_t n, size_t n_classes, double scale, double* losses);

  /// Computes causal attention for one sequence and the query heads of one key/value head: writes these heads' columns
  /// of out [n_positions, query_dim], and the log-sum-exp of their scores to log_sums [n_heads, n_positions].
  /// `sequence` selects the sequence's `starts` and dropout mask.
  void (*attention)(const T* qkv, const AttentionShape& shape, size_t kv_head, const Dropout& dropout, size_t sequence,
                    T* out, R* log_sums);
  /// Computes the gradient of qkv from dout, the gradient of attention()'s out. Writes only the columns of one
  /// key/value head and its query heads in dqkv [n_positions, qkv_dim].
  void (*attention_backward)(const T* dout, const T* out, const T* qkv, const R* log_sums, const AttentionShape& shape,
                             size_t kv_head, const Dropout& dropout, size_t sequence, T* dqkv);
};

using LoopTables = std::tuple<Loops<BFloat16>, Loops<float>, Loops<double>>;
/// Returns the kernels for an instruction set, which this machine must support.
[[nodiscard]] const LoopTables& loops_for(core::Isa isa);

/// Returns the kernels for this machine's best instruction set, or for the one that $FOLIO_ISA names.
template <typename T>
const Loops<T>& loops() {
  static const Loops<T>& best = std::get<Loops<T>>(loops_for(core::select_isa()));
  return best;
}

}  // namespace folio::train::fused
