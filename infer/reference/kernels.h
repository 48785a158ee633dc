// The engine's kernels: what each computes and in which order it adds. reference/ is the truth, in plain loops;
// cpu/ holds the same order in vectors, so every instruction set gives the reference's bits.
//
// The order of a sum over k: k is cut into chunks of kChunk from k = 0. In a chunk, lane l (0..15) adds the products
// with k ≡ l (mod 16) by fused multiply-adds, k rising, from 0; then lane l adds lane l+8, l+4, l+2, l+1.
// Chunks are added in the order of their index. Nothing depends on the number of rows, threads or vector registers.
// Weights of 16 bits are widened, which is exact, and then multiplied in this order. Weights in groups have one of
// their own, in which only one addition for each group is not exact: see matmul_groups.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/isa.h"
#include "infer/reference/groups.h"

namespace folio::infer::kernels {

inline constexpr size_t kLanes = 16;           ///< partial sums of a chunk
inline constexpr size_t kChunk = 1024;         ///< elements of k that are added before they join the total
inline constexpr size_t kBlockPositions = 32;  ///< positions in one block of the KV cache

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

/// The keys and values that some rows of a sequence may see, for one key/value head, as the cache stores them: as T,
/// float or F16. The rows follow each other and end in the same block.
template <typename T>
struct AttentionInput {
  const float* query;      ///< of row r: (n_queries, head_dim) at r * row_stride
  const T* const* blocks;  ///< (ceil(n_positions / 32)): where each block of this layer begins
  size_t key_offset;       ///< in elements from there to this head's keys, (head_dim, 32)
  size_t value_offset;     ///< in elements from there to this head's values, (32, head_dim)
  size_t n_positions;      ///< row r sees positions 0 to n_positions + r - 1; at least 1
  size_t n_rows;           ///< such that n_positions + n_rows - 1 is at most the next multiple of 32
  size_t row_stride;       ///< from a row to the next, in the query and in the output
  size_t n_queries;        ///< the query heads that share this key/value head
  size_t head_dim;         ///< at most kMaxHeadDim
  float scale;             ///< 1 / sqrt(head_dim)
};

inline constexpr size_t kMaxHeadDim = 512;

struct Kernels {
  core::Isa isa;

  /// out_i = x_i / sqrt(mean(x²) + eps) * weight_i over (dim). Zhang & Sennrich 2019. The sum as above.
  void (*rms_norm)(const float* x, const float* weight, float eps, size_t dim, float* out);

  /// out[n * out_stride + r] = Σ_k x[n, k] weight[r, k] for r in [row_begin, row_end), n in [0, n_rows), the sum as
  /// above. x is (n_rows, k), weight (…, k). With `accumulate` the total is added to what out holds.
  void (*matmul)(const float* x, size_t n_rows, const float* weight, size_t k, size_t row_begin, size_t row_end,
                 float* out, size_t out_stride, bool accumulate);

  /// The same for weights in 16 bits: the result is matmul's on the widened weights, bit for bit.
  void (*matmul_f16)(const float* x, size_t n_rows, const F16* weight, size_t k, size_t row_begin, size_t row_end,
                     float* out, size_t out_stride, bool accumulate);
  void (*matmul_bf16)(const float* x, size_t n_rows, const BF16* weight, size_t k, size_t row_begin, size_t row_end,
                      float* out, size_t out_stride, bool accumulate);

  /// One input (k), k a multiple of 32, as matmul_groups takes it. For each 32 numbers: m = max |x|, scale = m / 127,
  /// value = x * (127 / m) rounded to even. All values are 0 where m < 1e-30 (then the scale is, too) and where m is
  /// not finite (then the scale isn't either, and damage stays visible).
  void (*quantize)(const float* x, size_t k, QuantizedRow out);

  /// out[n * out_stride + r] = Σ_k x[n, k] weight[r, k] as above, x quantized to (n_rows, k). Over the groups of a row
  /// in rising order, from 0: total = fma(Σ (payload - offset) * value, scale_weight * scale_x, total), and where there
  /// are minimums, then total = fma(minimum, scale_x * Σ value, total). The sums within a group are of integers, hence
  /// exact.
  void (*matmul_groups)(const QuantizedRows& x, size_t n_rows, const GroupMatrix& weight, size_t row_begin,
                        size_t row_end, float* out, size_t out_stride, bool accumulate);

  /// Rotates adjacent pairs of each head in place: x_d = x_d cos_d + x_(d xor 1) sin_d (Su et al. 2021).
  /// x is (n_heads, head_dim); cos and sin are (head_dim) of one position, sin negative at even d.
  void (*rope)(float* x, const float* cos, const float* sin, size_t n_heads, size_t head_dim);

  /// out, laid out as the query, = softmax(scale q kᵀ) v. For each cache block by itself: scores add over d rising, the
  /// largest score m, p = exp(s - m), Σp in lanes, Σ p v over positions rising. Blocks are joined in order, each
  /// rescaled to the larger maximum (online softmax, Milakov & Gimelshein 2018).
  void (*attention)(const AttentionInput<float>& in, float* out);

  /// The same for keys and values in 16 bits: the result is attention's on the widened numbers, bit for bit.
  void (*attention_f16)(const AttentionInput<F16>& in, float* out);

  /// out_i = x_i over (n), rounded to the nearest, ties to even; too large a number becomes infinity. A NaN becomes a
  /// quiet NaN with the upper ten bits of its mantissa.
  void (*to_f16)(const float* x, size_t n, F16* out);

  /// out_i = silu(gate_i) * up_i over (n), silu(x) = x / (1 + exp(-x)). Shazeer 2020.
  void (*swiglu)(const float* gate, const float* up, size_t n, float* out);
};

/// The table of an instruction set. Throws core::Error if this build or machine has no such kernels.
[[nodiscard]] const Kernels& kernels_for(core::Isa isa);

const Kernels& reference_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512vnni_kernels();

}  // namespace folio::infer::kernels
