// The engine's kernels: what each computes, and the order in which it adds. reference/ defines the results in plain
// loops. cpu/ adds in the same order with vector instructions, so every instruction set gives the same bits.
//
// The order of a sum over k: k is cut into chunks of kChunk, starting at k = 0. Within a chunk, lane l (0..15) adds the
// products with k ≡ l (mod 16) by fused multiply-adds in increasing order of k, starting at 0. Then lane l adds lane
// l + 8, l + 4, l + 2 and l + 1. Chunks are added in the order of their index. The order does not depend on the number
// of rows, threads or vector registers. 16-bit weights are first widened to floats, which is exact. Weights in groups
// have an order of their own: see matmul_groups.
//
// An adapter (rank r: a is (r, k), b is (n_out, r), a scale) adds to a row x of a product, once that is whole and has
// its bias: t_j = scale * Σ_k x_k a[j, k], then y_i += Σ_j t_j b[i, j]. Both sums are matmul's, on floats, whatever the
// kind of the matrix: so a row with an adapter has the same bits alone and beside rows of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/families.h"
#include "core/isa.h"
#include "infer/reference/groups.h"

namespace folio::infer::kernels {

inline constexpr size_t kLanes = 16;           ///< partial sums of a chunk
inline constexpr size_t kChunk = 1024;         ///< elements of k that are summed before they are added to the total
inline constexpr size_t kBlockPositions = 32;  ///< positions in one block of the KV cache

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

/// A number in 8 bits without its scale. Of a head's keys or values: a block has its quants, int8 and laid out like
/// floats, and then its scales, F16 (q8_groups(head_dim), 32): one for each position and group of 32 dimensions, the
/// last perhaps shorter.
struct Q8 {
  int8_t quant;
};
inline constexpr size_t kQ8Group = 32;
[[nodiscard]] constexpr size_t q8_groups(size_t head_dim) { return (head_dim + kQ8Group - 1) / kQ8Group; }

/// Where the scale of a position's group is, in bytes from a head's first quant.
[[nodiscard]] constexpr size_t q8_scale(size_t head_dim, size_t group, size_t position) {
  return kBlockPositions * head_dim + (group * kBlockPositions + position) * sizeof(F16);
}

/// Elements of a head's keys, or of its values, in a block of the cache.
template <typename T>
[[nodiscard]] constexpr size_t head_size(size_t head_dim) {
  const size_t scales = std::is_same_v<T, Q8> ? sizeof(F16) * q8_groups(head_dim) : 0;
  return kBlockPositions * (head_dim + scales);
}

/// The keys and values that some rows of a sequence attend to, for one key/value head, as the cache stores them. T is
/// float, F16 or Q8. The rows are consecutive positions and end in the same block.
template <typename T>
struct AttentionInput {
  const float* query;            ///< of row r: (n_queries, head_dim) at r * row_stride
  const T* const* blocks;        ///< (ceil(n_positions / 32)): where each block begins
  size_t key_offset;             ///< in elements from there to this head's keys, (head_dim, 32)
  size_t value_offset;           ///< in elements from there to this head's values, (32, head_dim)
  size_t n_positions;            ///< row r sees positions up to n_positions + r - 1; at least 1
  size_t window;                 ///< and of these the last `window`. All rows begin in the same block.
  size_t n_rows;                 ///< such that n_positions + n_rows - 1 is at most the next multiple of 32
  size_t row_stride;             ///< from one row to the next, in the query and in the output
  size_t n_queries;              ///< the query heads that share this key/value head
  size_t head_dim;               ///< at most kMaxHeadDim
  float scale;                   ///< of query · key: 1 / sqrt(head_dim), but for some families
  float cap = 0.0F;              ///< scaled scores s become soft_cap(s); 0: they stay
  const float* sinks = nullptr;  ///< (query heads from the query's first on), or null: see attention
};

inline constexpr float kGeluFactor = 1.5957691216F;  ///< 2 sqrt(2 / π)
inline constexpr float kGeluCube = 0.044715F;

inline constexpr size_t kMaxHeadDim = 512;
inline constexpr size_t kManyInputs = 64;  ///< fewer don't pay for being packed

/// The next multiple of kLanes.
constexpr size_t in_lanes(size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// A BF16 matrix (n_out, k) for matmul_fast: panels of sixteen rows in which two columns are adjacent, (ceil(n_out /
/// 16), panel_columns(k) / 2, 16 rows, 2 columns). Rows and columns past the end are 0.
struct PanelMatrix {
  const BF16* panels;
};
/// The next multiple of 32, the columns that AMX multiplies at once.
constexpr size_t panel_columns(size_t k) { return (k + 31) / 32 * 32; }
/// Index of an element of the panels.
constexpr size_t in_panels(size_t k, size_t row, size_t column) {
  return ((row / kLanes * panel_columns(k) + column / 2 * 2) * kLanes) + row % kLanes * 2 + column % 2;
}

struct Kernels {
  core::Isa isa;

  /// out_i = x_i / sqrt(mean(x²) + eps) * weight_i over (dim). Zhang & Sennrich 2019. The sum as above.
  void (*rms_norm)(const float* x, const float* weight, float eps, size_t dim, float* out);

  /// out[n * out_stride + r] = Σ_k x[n, k] weight[r, k] for r in [row_begin, row_end), n in [0, n_rows), the sum as
  /// above. x is (n_rows, k), weight (…, k). With `accumulate` the result is added to out.
  void (*matmul)(const float* x, size_t n_rows, const float* weight, size_t k, size_t row_begin, size_t row_end,
                 float* out, size_t out_stride, bool accumulate);

  /// The same for 16-bit weights. The result is that of matmul on the widened weights, bit for bit.
  void (*matmul_f16)(const float* x, size_t n_rows, const F16* weight, size_t k, size_t row_begin, size_t row_end,
                     float* out, size_t out_stride, bool accumulate);
  void (*matmul_bf16)(const float* x, size_t n_rows, const BF16* weight, size_t k, size_t row_begin, size_t row_end,
                      float* out, size_t out_stride, bool accumulate);

  /// The same for many inputs, bit for bit, which pack has written: n <= packed_inputs of (n, k) into room for
  /// packed_inputs times in_lanes(k) numbers, which those of the next call follow. How they lie there is up to
  /// the kernels. Only those for AVX-512 have these.
  size_t packed_inputs;
  void (*pack)(const float* x, size_t n, size_t k, float* out);
  void (*matmul_packed)(const float* packed, size_t n_rows, const float* weight, size_t k, size_t row_begin,
                        size_t row_end, float* out, size_t out_stride, bool accumulate);
  void (*matmul_packed_f16)(const float* packed, size_t n_rows, const F16* weight, size_t k, size_t row_begin,
                            size_t row_end, float* out, size_t out_stride, bool accumulate);
  void (*matmul_packed_bf16)(const float* packed, size_t n_rows, const BF16* weight, size_t k, size_t row_begin,
                             size_t row_end, float* out, size_t out_stride, bool accumulate);

  /// And for quants alone, whose scales the caller knows.
  void (*matmul_q8)(const float* x, size_t n_rows, const Q8* weight, size_t k, size_t row_begin, size_t row_end,
                    float* out, size_t out_stride, bool accumulate);

  /// matmul, matmul_bf16 and matmul_q8 of few rows, whose weights are near already: nothing is prefetched.
  void (*matmul_near)(const float* x, size_t n_rows, const float* weight, size_t k, size_t row_begin, size_t row_end,
                      float* out, size_t out_stride, bool accumulate);
  void (*matmul_near_bf16)(const float* x, size_t n_rows, const BF16* weight, size_t k, size_t row_begin,
                           size_t row_end, float* out, size_t out_stride, bool accumulate);
  void (*matmul_near_q8)(const float* x, size_t n_rows, const Q8* weight, size_t k, size_t row_begin, size_t row_end,
                         float* out, size_t out_stride, bool accumulate);

  /// Quantizes n <= 16 inputs (n, k), k a multiple of 32, for matmul_groups. For each group of 32 numbers: m = max |x|,
  /// scale = m / 127, value = x * (127 / m) rounded to the nearest, ties to even. If m < 1e-30, the values and the
  /// scale are 0. If m is not finite, the values are 0 and the scale is not finite, so the damage stays visible.
  void (*quantize)(const float* x, size_t n, size_t k, const QuantizedInputs& out);

  /// out[n * out_stride + r] = Σ_k x[n, k] weight[r, k] as above, with x (n_rows, k) quantized. For each group of a row
  /// in order, starting at 0: total = fma(Σ (quant - zero_point) * value, scale_weight * scale_x, total), and then, if
  /// there are minimums, total = fma(minimum, scale_x * Σ value, total). The sums within a group are sums of integers
  /// and exact.
  void (*matmul_groups)(const QuantizedInputs& x, size_t n_rows, const GroupMatrix& weight, size_t row_begin,
                        size_t row_end, float* out, size_t out_stride, bool accumulate);

  /// --fast: products of BF16 inputs and weights by the processor's own instruction; null if it has none. An output is
  /// a function of its input row and its weight row, whatever else a step computes:
  ///   - vdpbf16ps (AVX-512, and the reference): sum = fma(x[c + 1], w[c + 1], sum), then sum = fma(x[c], w[c], sum),
  ///   for
  ///     c = 0, 2, 4, ... Denormals are 0, as operands and as sums.
  ///   - tdpbf16ps (AMX): the even and the odd columns of each 32 are summed apart, and then added to the sum.
  /// to_fast rounds a row (k) to the nearest, ties to even, denormals to 0, into panel_columns(k) elements, 0 past the
  /// end. matmul_fast multiplies rows of these, (n_rows, panel_columns(k)); row_begin is a multiple of kLanes.
  void (*to_fast)(const float* x, size_t k, BF16* out);
  void (*matmul_fast)(const BF16* x, size_t n_rows, const PanelMatrix& weight, size_t k, size_t row_begin,
                      size_t row_end, float* out, size_t out_stride, bool accumulate);

  /// Rotates the pairs of each head in place: x_d = x_d cos_d + x_e sin_d, where e is the other number of d's pair (Su
  /// et al. 2021). x is (n_heads, head_dim); cos and sin are (head_dim) of one position, sin negative at the first
  /// number of a pair.
  void (*rope)(float* x, const float* cos, const float* sin, size_t n_heads, size_t head_dim, core::RopePairs pairs);

  /// out, laid out like the query, = softmax(scale q kᵀ) v over the positions that a row sees. Each cache block,
  /// counted from position 0, is computed separately: scores s, summed in increasing order of d; m = max s; p = exp(s -
  /// m); Σ p in lanes; Σ p v in increasing order of positions. Blocks are then joined in order, each rescaled to the
  /// larger maximum (online softmax, Milakov & Gimelshein 2018). A head's sink s is a score more, whose value is 0: at
  /// last e^(s - m) is added to Σ p (gpt-oss, 2025).
  void (*attention)(const AttentionInput<float>& in, float* out);

  /// The same for keys and values in 16 or 8 bits. The result is that of attention on the widened numbers, bit for bit.
  /// Widening is exact: a quant times its scale, too, is a float.
  void (*attention_f16)(const AttentionInput<F16>& in, float* out);
  void (*attention_q8)(const AttentionInput<Q8>& in, float* out);

  /// out_i = x_i over (n), rounded to the nearest, ties to even. 65520 and more becomes infinity. A NaN becomes a quiet
  /// NaN that keeps the upper ten bits of its mantissa.
  void (*to_f16)(const float* x, size_t n, F16* out);

  /// Quantizes x (n), a key or a value of one head, in groups of 32, the last perhaps shorter: scale = max |x| / 127 as
  /// F16; quant = x * (1 / scale) rounded to the nearest, ties to even, and cut to [-127, 127]. If the scale is 0 or
  /// not finite, the quants are 0. Where a number is not finite, or max |x| / 127 too large for F16, all of the group
  /// are NaN when they are widened, so the damage stays visible.
  void (*to_q8)(const float* x, size_t n, Q8* quants, F16* scales);

  /// out_i = silu(gate_i) * up_i over (n), silu(x) = x / (1 + exp(-x)). Shazeer 2020.
  void (*swiglu)(const float* gate, const float* up, size_t n, float* out);

  /// The same with gelu(x) = x / (1 + exp(-c (x + 0.044715 x³))), c = 2 sqrt(2 / π): its approximation by tanh.
  /// Hendrycks & Gimpel 2016.
  void (*geglu)(const float* gate, const float* up, size_t n, float* out);

  /// out_i = g / (1 + exp(-a g)) * (u + 1), g = gate_i but at most c, u = up_i cut to [-c, c]; a and c are kGateSlope
  /// and kGateLimit of core/families.h. gpt-oss, 2025.
  void (*clamped_swiglu)(const float* gate, const float* up, size_t n, float* out);

  /// x_i = cap · tanh(x_i / cap) over (n), with tanh(y) = 1 - 2 / (e^2y + 1) and cap > 0. Gemma 2, 2024.
  void (*soft_cap)(float* x, size_t n, float cap);

  /// out_i += Σ_j t_j b[i, j] over (n), j < rank in the order of a sum over k: the second half of what an adapter adds.
  /// Sixteen rows of b lie together, and their numbers of one j follow each other: (ceil(n / 16), rank, 16), zeros at
  /// the end.
  void (*add_low_rank)(const float* t, size_t rank, const float* b, size_t n, float* out);
  void (*add_low_rank_bf16)(const float* t, size_t rank, const BF16* b, size_t n, float* out);
  void (*add_low_rank_q8)(const float* t, size_t rank, const Q8* b, size_t n, float* out);
};

/// The sets that have kernels of their own and that this machine can run, the best last.
[[nodiscard]] std::vector<core::Isa> isas_with_kernels();

/// The table of an instruction set. Throws core::Error if this build or machine has no such kernels.
[[nodiscard]] const Kernels& kernels_for(core::Isa isa);

/// Whether matmul_fast is faster than matmul_bf16 here. Intel's AVX-512 is not: on a core of a Xeon without AMX
/// products of BF16 gave 97 GFLOP/s where those of floats give 165.
[[nodiscard]] bool fast_pays();

/// The table for a set of this build's processors, or null where there is none. In a file for each kind of processor:
/// cpu/vector_kernels_x86.cpp, _arm.cpp, _other.cpp.
[[nodiscard]] const Kernels* vector_kernels(core::Isa isa);

const Kernels& reference_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512vnni_kernels();
const Kernels& avx512bf16_kernels();
const Kernels& amx_kernels();
const Kernels& neon_kernels();
const Kernels& neoni8mm_kernels();

}  // namespace folio::infer::kernels
