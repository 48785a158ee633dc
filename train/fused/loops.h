// The loops of the fused forms. Each is compiled once for each instruction set (loop_table.cpp); loops() returns those
// that this machine runs best. Formulas and their backward passes are beside the bodies: loop_table.cpp,
// attention_body.h, dropout_body.h.
// A row is one token's vector; rows are contiguous. Sums are added in a fixed order, so a loop repeats its bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "core/families.h"
#include "core/isa.h"

namespace folio::train::fused {

/// The upper half of a float's bits, as torch::kBFloat16.
struct BFloat16 {
  uint16_t bits;
};

/// The type in which numbers of type T are added up, and in which the residual stream and the weights of norms are.
template <typename T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Which numbers are dropped, as a function of a key and a number's place (dropout_body.h). No mask is stored.
struct Dropout {
  uint64_t key = 0;
  uint32_t threshold = 0;  ///< of 2³²: the probability of being dropped; 0: none is
  double scale = 1.0;      ///< of those that are kept: 1 / (1 - probability)

  [[nodiscard]] bool on() const { return threshold > 0; }
};
/// `probability` in [0, 1); `site` tells the places of one key apart.
[[nodiscard]] Dropout make_dropout(double probability, uint64_t key, uint64_t site);

/// An attention. A row of `qkv` has the H queries, G keys and G values of one token.
struct AttentionShape {
  size_t n_positions;  ///< T
  size_t n_heads;      ///< H
  size_t n_kv_heads;   ///< G, a divisor of H
  size_t head_dim;     ///< K
  size_t window;       ///< position t attends to the last `window` positions up to t; 0: to all
  /// For each position of each sequence, the first position that it may see, which never falls (attention.h's starts);
  /// null: 0. [sequences, n_positions]
  const int64_t* starts;
  core::RopePairs pairs;

  [[nodiscard]] size_t qkv_dim() const { return (n_heads + 2 * n_kv_heads) * head_dim; }
  [[nodiscard]] size_t query_dim() const { return n_heads * head_dim; }
};

/// T: the type of the activations between two matrix products; BFloat16, float or double.
template <typename T>
struct Loops {
  using R = Real<T>;

  /// Of rows x [n, dim]; inverse_rms [n] = 1 / sqrt(mean(x²) + eps).
  void (*rms_norm)(const R* x, const R* weight, double eps, size_t n, size_t dim, T* y, R* inverse_rms);
  /// dx = dstream + the gradient by x; dweight [dim] += that by weight. dstream may be dx.
  void (*rms_norm_backward)(const T* dy, const R* x, const R* weight, const R* inverse_rms, size_t n, size_t dim,
                            const R* dstream, R* dx, R* dweight);

  /// out = x + dropped(y) for rows first .. first + n of those that `dropout` counts.
  void (*add)(const R* x, const T* y, const Dropout& dropout, size_t first, size_t n, size_t dim, R* out);
  /// dy = dropped(dout), the gradient of add by y; and without dropout a conversion.
  void (*drop)(const R* dout, const Dropout& dropout, size_t first, size_t n, size_t dim, T* dy);

  /// Rotates the queries and keys of rows [n, qkv_dim] in place; row i is at position (first + i) mod n_positions,
  /// which rotates by cos and sin [positions, head_dim / 2], or back.
  void (*rotate)(T* qkv, const AttentionShape& shape, const R* cos, const R* sin, bool inverse, size_t first, size_t n);

  /// y [n, dim] = weight ⊙ silu(gate) ⊙ up. Rows of gate and up are `stride` apart; weight [n], or null: 1.
  void (*swiglu)(const T* gate, const T* up, size_t stride, const R* weight, size_t n, size_t dim, T* y);
  /// dgate and dup, as gate and up, from dy, and y once more; dweight [n] where weight is not null.
  void (*swiglu_backward)(const T* dy, const T* gate, const T* up, size_t stride, const R* weight, size_t n, size_t dim,
                          T* dgate, T* dup, T* y, R* dweight);
  /// out [n, dim]: each the sum of the `n_summed` rows of x that `rows` [n, n_summed] names.
  void (*sum_rows)(const T* x, const int64_t* rows, size_t n, size_t n_summed, size_t dim, R* out);

  /// losses [n]: of each row of logits [n, n_classes] -log softmax(logits)[target]. If `scale` is not 0, the logits
  /// become their sum's gradient, times scale.
  void (*cross_entropy)(T* logits, const int64_t* targets, size_t n, size_t n_classes, double scale, double* losses);

  /// Causal attention of one sequence and key/value head: rows of qkv [T, qkv_dim] to its columns of out [T,
  /// query_dim]. log_sums [H, T] gets the logarithm of each softmax's sum. `sequence` is for dropout.
  void (*attention)(const T* qkv, const AttentionShape& shape, size_t kv_head, const Dropout& dropout, size_t sequence,
                    T* out, R* log_sums);
  /// Its columns of dqkv from dout.
  void (*attention_backward)(const T* dout, const T* out, const T* qkv, const R* log_sums, const AttentionShape& shape,
                             size_t kv_head, const Dropout& dropout, size_t sequence, T* dqkv);
};

using LoopTables = std::tuple<Loops<BFloat16>, Loops<float>, Loops<double>>;
/// Those of an instruction set, which this machine must have.
[[nodiscard]] const LoopTables& loops_for(core::Isa isa);

/// The loops of the best instruction set here, or of the one that FOLIO_ISA names.
template <typename T>
const Loops<T>& loops() {
  static const Loops<T>& best = std::get<Loops<T>>(loops_for(core::select_isa()));
  return best;
}

}  // namespace folio::train::fused
