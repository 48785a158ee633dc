// Causal attention of one head in blocks of queries; the full matrix of scores is never stored.
//   s_ij = q_i · k_j / √K,   p_ij = e^(s_ij - l_i) with l_i = log Σ_j e^(s_ij),   o_i = Σ_j m_ij p_ij v_j,
// over the keys j that query i attends to; m is the scaled dropout mask. o and l are stored for the backward pass.
// Shapes: T positions, K dimensions per head.
// Backward (Dao et al., "FlashAttention", 2022, appendix B.2): recomputes the weights p, and
//   dv_j = Σ_i m_ij p_ij do_i,
//   dp_ij = m_ij (do_i · v_j),   ds_ij = p_ij (dp_ij - δ_i)  with  δ_i = Σ_j p_ij dp_ij = do_i · o_i,
//   dq_i = Σ_j ds_ij k_j / √K,   dk_j = Σ_i ds_ij q_i / √K.
#pragma once

#include <algorithm>

#include "train/fused/dropout_body.h"
#include "train/fused/products_body.h"

namespace folio::train::fused {
namespace {

constexpr size_t kQueryBlock = 32;

template <typename T>
inline void store_rows(const Real<T>* x, size_t stride, size_t n, size_t dim, Real<T> factor, T* out,
                       size_t out_stride) {
  for (size_t i = 0; i < n; ++i, x += stride, out += out_stride) {
#pragma omp simd
    for (size_t d = 0; d < dim; ++d) out[d] = rounded<T>(x[d] * factor);
  }
}

/// A block of queries, and the range of keys [first, first + n_keys), which contains all keys that these queries attend
/// to. `first` is a multiple of 16. Query i attends to [first_of(i), i].
struct KeyRange {
  size_t window;
  const int64_t* starts;
  size_t n_queries, first, n_keys;

  KeyRange(const AttentionShape& shape, size_t sequence, size_t block)
      : window(shape.window == 0 ? shape.n_positions : shape.window),
        starts(shape.starts == nullptr ? nullptr : shape.starts + sequence * shape.n_positions),
        n_queries(std::min(kQueryBlock, shape.n_positions - block)),
        first(first_of(block) / 16 * 16),
        n_keys(block + n_queries - first) {}
  [[nodiscard]] size_t first_of(size_t row) const {
    const size_t start = starts == nullptr ? 0 : static_cast<size_t>(starts[row]);
    return row + 1 > window ? std::max(start, row + 1 - window) : start;
  }
  [[nodiscard]] size_t begin(size_t row) const { return std::max(first_of(row), first) - first; }
  [[nodiscard]] size_t width() const { return padded(n_keys); }
};

inline uint64_t attention_row(const AttentionShape& shape, size_t sequence, size_t head, size_t row) {
  return (sequence * shape.n_heads + head) * shape.n_positions + row;
}

/// Column offsets of one key/value head in a row of qkv, and row strides of scratch memory.
struct HeadLayout {
  size_t group;  ///< query heads per key/value head
  size_t n, dim, stride, at_key, at_value;
  size_t width;   ///< row stride of matrices with `dim` columns: padded to a multiple of 16
  size_t length;  ///< row stride of matrices with `n` columns: padded to a multiple of 16, plus 16

  HeadLayout(const AttentionShape& shape, size_t kv_head)
      : group(shape.n_heads / shape.n_kv_heads),
        n(shape.n_positions),
        dim(shape.head_dim),
        stride(shape.qkv_dim()),
        at_key((shape.n_heads + kv_head) * dim),
        at_value(at_key + shape.n_kv_heads * dim),
        width(padded(dim)),
        length(padded(n) + 16) {}
};

template <typename T>
void attention(const T* qkv, const AttentionShape& shape, size_t kv_head, const Dropout& dropout, size_t sequence,
               T* out, Real<T>* log_sums) {
  using R = Real<T>;
  using P = Arithmetic<T>;
  using E = typename P::E;
  const HeadLayout l(shape, kv_head);
  const R scale = 1 / std::sqrt(static_cast<R>(l.dim));

  // Packed matrices have kGroup values per element (products_body.h). Rows of all matrices are padded (HeadLayout).
  const auto packed = scratch<E>(l.dim * l.length + l.n * l.width + kQueryBlock * (l.width + l.length) + l.width);
  E* keys = packed.get();                               // packed kᵀ [K / kGroup, T]
  E* values = keys + l.dim * l.length;                  // packed v [T / kGroup, K]
  E* queries = values + (l.n + 1) * l.width;            // packed q [block, K / kGroup] of a block of queries
  E* packed_weights = queries + kQueryBlock * l.width;  // packed m ⊙ p [block, T / kGroup], unnormalized
  const auto numbers = scratch<R>(kQueryBlock * (l.width + l.length));
  R* weights = numbers.get();                   // q kᵀ, then unnormalized m ⊙ p [block, T]
  R* means = weights + kQueryBlock * l.length;  // (m ⊙ p) v [block, K], unnormalized
  pack_columns(qkv + l.at_key, l.stride, l.n, l.dim, keys, l.length);
  pack_row_groups<T>(qkv + l.at_value, l.stride, l.n, l.dim, values, l.width);
  for (size_t head = kv_head * l.group; head < (kv_head + 1) * l.group; ++head) {
    for (size_t block = 0; block < l.n; block += kQueryBlock) {
      const KeyRange seen(shape, sequence, block);
      const size_t n_queries = seen.n_queries, n_keys = seen.n_keys, width = seen.width();
      pack_rows<T>(qkv + block * l.stride + head * l.dim, l.stride, n_queries, l.dim, queries, l.width);
      multiply<P>(n_queries, width, l.dim, {queries, l.width, 1}, keys + seen.first, l.length, weights, l.length,
                  false);
      R factors[kQueryBlock];
      for (size_t i = 0; i < n_queries; ++i) {
        const size_t row = block + i, begin = seen.begin(row), end = row + 1 - seen.first;
        R* s = weights + i * l.length;
        R largest = s[begin];
#pragma omp simd reduction(max : largest)
        for (size_t j = begin; j < end; ++j) largest = s[j] > largest ? s[j] : largest;
        R sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t j = begin; j < end; ++j) sum += s[j] = exp((s[j] - largest) * scale);
        std::fill(s, s + begin, R{0});
        std::fill(s + end, s + width, R{0});
        if (dropout.on()) {
          const RowMask<R> mask(dropout, attention_row(shape, sequence, head, row));
#pragma omp simd
          for (size_t j = begin; j < end; ++j) s[j] *= mask(seen.first + j);
        }
        factors[i] = 1 / sum;
        log_sums[head * l.n + row] = largest * scale + std::log(sum);
      }
      pack_rows<T>(weights, l.length, n_queries, width, packed_weights, l.length);
      multiply<P>(n_queries, l.width, n_keys, {packed_weights, l.length, 1}, values + seen.first / P::kGroup * l.width,
                  l.width, means, l.width, false);
      for (size_t i = 0; i < n_queries; ++i) {
        store_rows<T>(means + i * l.width, l.width, 1, l.dim, factors[i],
                      out + (block + i) * shape.query_dim() + head * l.dim, 0);
      }
    }
  }
}

template <typename T>
void attention_backward(const T* dout, const T* out, const T* qkv, const Real<T>* log_sums, const AttentionShape& shape,
                        size_t kv_head, const Dropout& dropout, size_t sequence, T* dqkv) {
  using R = Real<T>;
  using P = Arithmetic<T>;
  using E = typename P::E;
  const HeadLayout l(shape, kv_head);
  const R scale = 1 / std::sqrt(static_cast<R>(l.dim));

  const auto packed =
      scratch<E>(2 * l.dim * l.length + (l.n + 1) * l.width + kQueryBlock * (4 * l.width + 2 * l.length));
  E* key_columns = packed.get();                             // packed kᵀ [K / kGroup, T]
  E* value_columns = key_columns + l.dim * l.length;         // packed vᵀ [K / kGroup, T]
  E* keys = value_columns + l.dim * l.length;                // packed k [T / kGroup, K]
  E* queries = keys + (l.n + 1) * l.width;                   // packed q [block, K / kGroup] of a block of queries
  E* query_groups = queries + kQueryBlock * l.width;         // packed q [block / kGroup, K]
  E* douts = query_groups + kQueryBlock * l.width;           // packed do [block, K / kGroup]
  E* dout_groups = douts + kQueryBlock * l.width;            // packed do [block / kGroup, K]
  E* packed_scores = dout_groups + kQueryBlock * l.width;    // packed ds [block, T / kGroup]
  E* score_groups = packed_scores + kQueryBlock * l.length;  // packed m ⊙ p, then ds [block / kGroup, T]
  const auto numbers = scratch<R>(2 * l.n * l.width + kQueryBlock * (l.width + 2 * l.length));
  R* dkeys = numbers.get();                       // gradient of k [T, K]
  R* dvalues = dkeys + l.n * l.width;             // gradient of v [T, K]
  R* dqueries = dvalues + l.n * l.width;          // gradient of q [block, K] for a block of queries
  R* weights = dqueries + kQueryBlock * l.width;  // q kᵀ, then m ⊙ p [block, T]
  R* dscores = weights + kQueryBlock * l.length;  // do vᵀ, then ds [block, T]
  pack_columns(qkv + l.at_key, l.stride, l.n, l.dim, key_columns, l.length);
  pack_columns(qkv + l.at_value, l.stride, l.n, l.dim, value_columns, l.length);
  pack_row_groups<T>(qkv + l.at_key, l.stride, l.n, l.dim, keys, l.width);
  std::fill(dkeys, dkeys + 2 * l.n * l.width, R{0});
  for (size_t head = kv_head * l.group; head < (kv_head + 1) * l.group; ++head) {
    for (size_t block = 0; block < l.n; block += kQueryBlock) {
      const KeyRange seen(shape, sequence, block);
      const size_t n_queries = seen.n_queries, n_keys = seen.n_keys, width = seen.width();
      const T* query = qkv + block * l.stride + head * l.dim;
      const size_t at_out = block * shape.query_dim() + head * l.dim;
      pack_rows<T>(query, l.stride, n_queries, l.dim, queries, l.width);
      pack_rows<T>(dout + at_out, shape.query_dim(), n_queries, l.dim, douts, l.width);
      pack_row_groups<T>(query, l.stride, n_queries, l.dim, query_groups, l.width);
      pack_row_groups<T>(dout + at_out, shape.query_dim(), n_queries, l.dim, dout_groups, l.width);
      multiply<P>(n_queries, width, l.dim, {queries, l.width, 1}, key_columns + seen.first, l.length, weights, l.length,
                  false);
      multiply<P>(n_queries, width, l.dim, {douts, l.width, 1}, value_columns + seen.first, l.length, dscores, l.length,
                  false);
      for (size_t i = 0; i < n_queries; ++i) {
        const size_t row = block + i, begin = seen.begin(row), end = row + 1 - seen.first;
        const T* o = out + at_out + i * shape.query_dim();
        const T* d_o = dout + at_out + i * shape.query_dim();
        R delta = 0;
#pragma omp simd reduction(+ : delta)
        for (size_t d = 0; d < l.dim; ++d) delta += real(d_o[d]) * real(o[d]);
        const R log_sum = log_sums[head * l.n + row];
        R* p = weights + i * l.length;
        R* ds = dscores + i * l.length;
        with_mask<R>(dropout, attention_row(shape, sequence, head, row), [&](const auto& mask) {
#pragma omp simd
          for (size_t j = begin; j < end; ++j) {
            const R weight = exp(p[j] * scale - log_sum), m = mask(seen.first + j);
            ds[j] = weight * (m * ds[j] - delta);
            p[j] = m * weight;
          }
        });
        for (R* x : {p, ds}) {
          std::fill(x, x + begin, R{0});
          std::fill(x + end, x + width, R{0});
        }
      }
      pack_row_groups<T>(weights, l.length, n_queries, width, score_groups, l.length);
      multiply<P>(n_keys, l.width, n_queries, {score_groups, 1, l.length}, dout_groups, l.width,
                  dvalues + seen.first * l.width, l.width, true);
      pack_row_groups<T>(dscores, l.length, n_queries, width, score_groups, l.length);
      multiply<P>(n_keys, l.width, n_queries, {score_groups, 1, l.length}, query_groups, l.width,
                  dkeys + seen.first * l.width, l.width, true);
      pack_rows<T>(dscores, l.length, n_queries, width, packed_scores, l.length);
      multiply<P>(n_queries, l.width, n_keys, {packed_scores, l.length, 1}, keys + seen.first / P::kGroup * l.width,
                  l.width, dqueries, l.width, false);
      store_rows(dqueries, l.width, n_queries, l.dim, scale, dqkv + block * l.stride + head * l.dim, l.stride);
    }
  }
  store_rows(dkeys, l.width, l.n, l.dim, scale, dqkv + l.at_key, l.stride);
  store_rows(dvalues, l.width, l.n, l.dim, R{1}, dqkv + l.at_value, l.stride);
}

}  // namespace
}  // namespace folio::train::fused
