// The engine's kernels: their formulas and the order of their sums. reference/ defines the results in plain loops; cpu/
// adds in the same order with vector instructions, so that all instruction sets give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/families.h"
#include "core/isa.h"
#include "infer/reference/groups.h"

namespace folio::infer::kernels {

// The order of a sum over k: k is cut into chunks of kChunk. Within a chunk, lane l (0..15) adds the products with k
// mod 16 = l by fused multiply-adds in increasing order of k, starting at 0. Then lane l adds lanes l + 8, l + 4, l + 2
// and l + 1 in turn. Chunks are added in order of their index. So the order does not depend on the number of rows,
// threads or vector registers. 16-bit weights are widened to floats first, which is exact. matmul_groups has its own
// order.
//
// An adapter of rank r (a: (r, k), b: (n_out, r), a scale) updates the result y of a row x, after the bias is added:
// t_j = scale * Σ_k x_k a[j, k], then y_i += Σ_j t_j b[i, j]. Both sums are computed like matmul with float
// weights, whatever their element type, so a row's result does not depend on the adapters of other rows.
inline constexpr size_t kLanes = 16;           ///< partial sums of a chunk
inline constexpr size_t kChunk = 1024;         ///< elements of k that are summed before they are added to the total
inline constexpr size_t kBlockPositions = 32;  ///< positions in one block of the KV cache

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

/// Two BF16 values that one lane multiplies. With --fast, a cache block stores a head's keys as pairs of dimensions,
/// (head_dim / 2, 32), and its values as pairs of positions, (16, head_dim).
struct BF16Pair {
  BF16 of[2];
};

/// An 8-bit value without its scale. A cache block stores a head's keys or values as int8 quants, laid out like floats,
/// followed by F16 scales, (q8_groups(head_dim), 32): one for each position and group of 32 dimensions (the last group
/// may be shorter).
struct Q8 {
  int8_t quant;
};
inline constexpr size_t kQ8Group = 32;
[[nodiscard]] constexpr size_t q8_groups(size_t head_dim) { return (head_dim + kQ8Group - 1) / kQ8Group; }

/// Returns the byte offset, from a head's first quant, of the scale of `position` in dimension group `group`.
[[nodiscard]] constexpr size_t q8_scale(size_t head_dim, size_t group, size_t position) {
  return kBlockPositions * head_dim + (group * kBlockPositions + position) * sizeof(F16);
}

/// Returns the number of elements (Q8: bytes, with scales) of a head's keys, or of its values, in a cache block.
template <typename T>
[[nodiscard]] constexpr size_t head_size(size_t head_dim) {
  if constexpr (std::is_same_v<T, BF16Pair>) return kBlockPositions * head_dim / 2;
  const size_t scales = std::is_same_v<T, Q8> ? sizeof(F16) * q8_groups(head_dim) : 0;
  return kBlockPositions * (head_dim + scales);
}

/// The queries of some rows of a sequence, and the keys and values of one key/value head that they attend to. T is the
/// element type of the KV cache: float, F16, Q8 or BF16Pair. The rows are consecutive positions in one cache block. In
/// latent attention (DeepSeek-V2, 2024), a block has no keys, and the values are used as keys, too.
template <typename T>
struct AttentionInput {
  const float* query;            ///< row r: (n_queries, head_dim) at r * row_stride
  const T* const* blocks;        ///< (ceil(n_positions / 32)): the start of each cache block
  size_t key_offset;             ///< elements from a block's start to this head's keys, (head_dim, 32)
  size_t value_offset;           ///< elements from a block's start to this head's values, (32, head_dim)
  size_t n_positions;            ///< row r attends to positions below n_positions + r; at least 1
  size_t window;                 ///< row r attends to its last `window` positions; the windows begin in the same block
  size_t n_rows;                 ///< number of rows; n_positions + n_rows - 1 is at most the next multiple of 32
  size_t row_stride;             ///< elements from one row to the next, in the query and in the output
  size_t n_queries;              ///< query heads that share this key/value head
  size_t head_dim;               ///< at most kMaxHeadDim
  size_t latent_rank = 0;        ///< latent attention: leading elements of each value that are output; 0: not latent
  float scale;                   ///< factor of query · key: 1 / sqrt(head_dim), except in some model families
  float cap = 0.0F;              ///< scaled scores s become cap · tanh(s / cap); 0: no cap
  const float* sinks = nullptr;  ///< (n_queries): an extra score per query head (Kernels::attention); null: none
};

/// Returns the number of elements of each head of the output.
template <typename T>
[[nodiscard]] constexpr size_t value_dim(const AttentionInput<T>& in) {
  return in.latent_rank > 0 ? in.latent_rank : in.head_dim;
}

inline constexpr float kGeluFactor = 1.5957691216F;  ///< 2 sqrt(2 / π), for GELU's tanh approximation
inline constexpr float kGeluCube = 0.044715F;

inline constexpr size_t kMaxHeadDim = 1024;
inline constexpr size_t kManyInputs = 64;  ///< minimum number of inputs for which Kernels::pack makes matmul faster

/// Returns n rounded up to a multiple of kLanes.
constexpr size_t in_lanes(size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// A BF16 matrix (n_out, k) for matmul_fast, in panels of sixteen rows: (ceil(n_out / 16), panel_columns(k) / 2, 16
/// rows, 2 columns). Rows and columns past the end are 0.
struct PanelMatrix {
  const BF16* panels;
};
/// Returns k rounded up to a multiple of 32, the columns of one AMX instruction.
constexpr size_t panel_columns(size_t k) { return (k + 31) / 32 * 32; }
/// Returns the index of an element in PanelMatrix::panels.
constexpr size_t in_panels(size_t k, size_t row, size_t column) {
  return ((row / kLanes * panel_columns(k) + column / 2 * 2) * kLanes) + row % kLanes * 2 + column % 2;
}

/// A function pointer as a class, so that Overloads can inherit from several.
template <typename Signature>
struct Function;
template <typename... Arguments>
struct Function<void(Arguments...)> {
  void (*run)(Arguments...) = nullptr;
  void operator()(Arguments... arguments) const { run(arguments...); }
};

/// One operation for several types of elements: a call selects the function by the types of its arguments.
template <typename... Signatures>
struct Overloads : Function<Signatures>... {
  using Function<Signatures>::operator()...;
};

template <typename Weight>
using Matmul = void(const float* x, size_t n_rows, const Weight* weight, size_t k, size_t row_begin, size_t row_end,
                    float* out, size_t out_stride, bool accumulate);
template <typename T>
using Attention = void(const AttentionInput<T>& in, float* out);
template <typename Weight>
using AddLowRank = void(const float* t, size_t rank, const Weight* b, size_t n, float* out);

struct Kernels {
  core::Isa isa;

  /// Computes out_i = x_i / sqrt(mean(x²) + eps) * weight_i over (dim), summed like matmul. Zhang & Sennrich 2019.
  void (*rms_norm)(const float* x, const float* weight, float eps, size_t dim, float* out);

  /// Computes out[n * out_stride + r] = Σ_k x[n, k] weight[r, k] for r in [row_begin, row_end) and n < n_rows, in the
  /// order of sums above (kLanes). x is (n_rows, k), weight (…, k). With `accumulate`, adds the result to out. 16-bit
  /// weights give results bit-identical to those of the weights widened to float. For Q8 weights, only the quants are
  /// multiplied; the caller applies their scales.
  Overloads<Matmul<float>, Matmul<F16>, Matmul<BF16>, Matmul<Q8>> matmul;

  /// Computes matmul for many inputs in a packed layout; results are bit-identical to matmul's. pack() writes
  /// n <= packed_inputs inputs (n, k) to packed_inputs * in_lanes(k) floats; the outputs of successive calls are
  /// contiguous. The layout depends on the instruction set. Null except with AVX-512.
  size_t packed_inputs = 0;
  void (*pack)(const float* x, size_t n, size_t k, float* out) = nullptr;
  Overloads<Matmul<float>, Matmul<F16>, Matmul<BF16>> matmul_packed{};

  /// Computes matmul for few rows and weights that are already in the CPU's caches, so it does not prefetch.
  Overloads<Matmul<float>, Matmul<BF16>, Matmul<Q8>> matmul_near;

  /// Quantizes n <= 16 inputs (n, k), k a multiple of 32, for matmul_groups. For each group of 32 values: m = max |x|,
  /// scale = m / 127, value = x * (127 / m) rounded to nearest, ties to even. If m < 1e-30, the values and the scale
  /// are 0. If m is not finite, the values are 0 and the scale is not finite, so that the error propagates.
  void (*quantize)(const float* x, size_t n, size_t k, const QuantizedInputs& out);

  /// Computes out[n * out_stride + r] = Σ_k x[n, k] weight[r, k], with x (n_rows, k) quantized. For each group of a row
  /// in order, starting at total = 0: total = fma(Σ (quant - zero_point) * value, scale_weight * scale_x, total), then,
  /// if there are minimums, total = fma(minimum, scale_x * Σ value, total). Sums within a group are sums of integers,
  /// which are exact.
  void (*matmul_groups)(const QuantizedInputs& x, size_t n_rows, const GroupMatrix& weight, size_t row_begin,
                        size_t row_end, float* out, size_t out_stride, bool accumulate);

  /// Compute products for --fast with the CPU's BF16 instruction; null without one. to_fast rounds a row (k) to
  /// BF16, ties to even, and pads it with 0 to panel_columns(k) elements. matmul_fast multiplies such rows, (n_rows,
  /// panel_columns(k)); row_begin is a multiple of kLanes. Denormals are flushed to 0. AVX-512's vdpbf16ps, like the
  /// reference, computes sum = fma(x[c + 1], w[c + 1], sum), then sum = fma(x[c], w[c], sum), for c = 0, 2, 4, ...
  /// AMX's tdpbf16ps sums even and odd columns of each 32 separately and adds both to sum. Intel SDM, VDPBF16PS.
  void (*to_fast)(const float* x, size_t k, BF16* out) = nullptr;
  void (*matmul_fast)(const BF16* x, size_t n_rows, const PanelMatrix& weight, size_t k, size_t row_begin,
                      size_t row_end, float* out, size_t out_stride, bool accumulate) = nullptr;
  size_t fast_rows = kLanes;  ///< weight rows that matmul_fast multiplies together; fewer rows per call are slower

  /// Applies RoPE to each head in place: x_d = x_d cos_d + x_e sin_d, where d and e form a pair (Su et al. 2021). x is
  /// (n_heads, head_dim); cos and sin are (head_dim) for one position, sin negated at the first element of a pair.
  void (*rope)(float* x, const float* cos, const float* sin, size_t n_heads, size_t head_dim, core::RopePairs pairs);

  /// Computes out = softmax(scale q kᵀ) v, laid out like the query, over the positions that a row attends to. Each
  /// cache block is computed separately: scores s, summed in increasing order of d; m = max s; p = exp(s - m); Σ p in
  /// lanes; Σ p v in increasing order of positions. Blocks are then joined in order, each rescaled to the larger
  /// maximum (online softmax, Milakov & Gimelshein 2018). A head's sink s is an extra score with the value 0:
  /// finally, e^(s - m) is added to Σ p (gpt-oss, 2025). In latent attention, scores are summed like matmul (not in
  /// attention_bf16), and only the first latent_rank elements of each head of `out` are written. Keys and values in 16
  /// or 8 bits give results bit-identical to those of the values widened to float. Widening is exact, since a quant
  /// times its scale is representable as a float.
  Overloads<Attention<float>, Attention<F16>, Attention<Q8>> attention;
  /// Computes attention for --fast; null if BF16 products are not faster on the CPU. Differs from `attention` only in
  /// the products. Queries and p are rounded to BF16, and products are added in pairs, as in matmul_fast: dimensions 2i
  /// and 2i + 1 in q k, positions 2i and 2i + 1 in p v. There, p is 0 at positions that the row does not attend to. Σ p
  /// is computed from floats. head_dim must be even.
  Attention<BF16Pair>* attention_bf16 = nullptr;

  /// Rounds x (n) to F16, to nearest, ties to even. If |x| >= 65520, the result is ±infinity. A NaN becomes a quiet
  /// NaN that keeps the upper ten bits of its mantissa.
  void (*to_f16)(const float* x, size_t n, F16* out);

  /// Quantizes x (n), a key or value of one head, in groups of 32 (the last may be shorter): scale = max |x| / 127 as
  /// F16; quant = x * (1 / scale) rounded to nearest, ties to even, clamped to [-127, 127]. If the scale is 0 or not
  /// finite, the quants are 0. If a value is not finite, or max |x| / 127 overflows F16, the whole group widens to NaN,
  /// so that the error propagates.
  void (*to_q8)(const float* x, size_t n, Q8* quants, F16* scales);

  /// Computes out_i = silu(gate_i) * up_i over (n), silu(x) = x / (1 + exp(-x)). Shazeer 2020.
  void (*swiglu)(const float* gate, const float* up, size_t n, float* out);

  /// Computes swiglu with gelu(x) = x / (1 + exp(-c (x + 0.044715 x³))) instead of silu, c = 2 sqrt(2 / π): the tanh
  /// approximation. Hendrycks & Gimpel 2016.
  void (*geglu)(const float* gate, const float* up, size_t n, float* out);

  /// Computes out_i = g / (1 + exp(-a g)) * (u + 1) with g = min(gate_i, c), u = up_i clamped to [-c, c]; a = 1.702
  /// and c = 7 (kGateSlope and kGateLimit in core/families.h). gpt-oss, 2025.
  void (*clamped_swiglu)(const float* gate, const float* up, size_t n, float* out);

  /// Sets x_i = cap · tanh(x_i / cap) over (n), with tanh(y) = 1 - 2 / (e^2y + 1) and cap > 0. Gemma 2, 2024.
  void (*soft_cap)(float* x, size_t n, float cap);

  /// Adds Σ_j t_j b[i, j], j < rank, to out_i over (n), in matmul's order of sums: the second product of an adapter's
  /// update. b is stored in tiles of sixteen rows, (ceil(n / 16), rank, 16), padded with zeros.
  Overloads<AddLowRank<float>, AddLowRank<BF16>, AddLowRank<Q8>> add_low_rank;
};

/// Returns the instruction sets that have their own kernels and run on this machine, the fastest last.
[[nodiscard]] std::vector<core::Isa> isas_with_kernels();

/// Returns an instruction set's kernels, or the reference kernels if this build has none for it. Throws core::Error if
/// this machine does not support the instruction set.
[[nodiscard]] const Kernels& kernels_for(core::Isa isa);

/// Returns true if matmul_fast is faster than matmul on this machine. It is slower on Intel CPUs with AVX-512 but
/// without AMX, where one Xeon core reached 97 GFLOP/s with BF16 products and 165 with float products.
[[nodiscard]] bool fast_pays();

const Kernels& reference_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512vnni_kernels();
const Kernels& avx512bf16_kernels();
const Kernels& amx_kernels();
const Kernels& neon_kernels();
const Kernels& neoni8mm_kernels();

}  // namespace folio::infer::kernels
