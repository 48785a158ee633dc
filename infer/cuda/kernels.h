// The GPU kernels. All run asynchronously on the stream. Arrays are in device memory, except those of Matmul.
// Results are within bounds that the tests derive from reference/, and don't depend on batching, except with
// `fast_sums`. experiments/33_cuda derives such kernels from plain loops.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/cuda/device.h"
#include "infer/cuda/layout.h"

namespace folio::infer::gpu {

/// Sets row r of out (n_rows, k) to row tokens[r] of the table, dequantized, times scale. A token t < 0 stands for
/// drawn[-1 - t], a token drawn in the previous step. If that draw failed, the row is unspecified.
void embed(Stream& stream, const PackedMatrix& table, const int32_t* tokens, const int32_t* drawn, float scale,
           size_t n_rows, float* out);

/// A term to add to the residual: scale * numbers (rows, dim), or nothing if `numbers` is null.
struct Delta {
  const float* numbers = nullptr;
  float scale = 1.0F;
};

/// Sets row i of `to` (n, dim) to row rows[i] of `from`. `to` must not be `from`.
void gather(Stream& stream, const float* from, const int32_t* rows, size_t n, size_t dim, float* to);

/// Adds delta to x (n). delta.numbers must not be null.
void add(Stream& stream, float* x, const Delta& delta, size_t n);

/// Scales x (n), then sets x = cap · tanh(x / cap) if cap is not 0; bit-identical to kernels::soft_cap.
void finish_logits(Stream& stream, float* x, size_t n, float scale, float cap);

/// Copies whole cache blocks: block pairs[2 i] to block pairs[2 i + 1], i < n.
void copy_blocks(Stream& stream, const CacheView& cache, const int32_t* pairs, size_t n);

/// Packs rows x (n_rows, k) into `to`, in the format to.kind. F16: each row is multiplied by a power of two that brings
/// its largest magnitude to [2^14, 2^15), and rounded; row_scales has the inverse. BF16: rounded. Groups: quantized,
/// bit-identical to Kernels::quantize (reference/kernels.h).
void pack_inputs(Stream& stream, const float* x, const PackedInputs& to);

/// Computes out (n_vectors, dim) = RMSNorm(x) * weight: x_i / sqrt(mean(x²) + eps) * weight_i. Zhang & Sennrich 2019.
/// `out` may be x. Vectors of x and `out` are `stride` elements apart; 0: dim.
void rms_norm(Stream& stream, const float* x, const float* weight, float eps, size_t n_vectors, size_t dim, float* out,
              size_t stride = 0);
/// Adds delta to x (n_rows, k), computes out = RMSNorm(x) * weight and packs `out` into `packed`, in one kernel.
void add_norm_pack(Stream& stream, float* x, const Delta& delta, const float* weight, float eps, float* out,
                   const PackedInputs& packed);

enum class Activation : uint8_t { Silu, Gelu, Clamped };

/// Sets gate (n) = silu(gate) * up (Shazeer 2020), or the GELU or clamped variant, bit-identical to the CPU kernels.
void activate(Stream& stream, Activation activation, float* gate, const float* up, size_t n);
/// Computes activate() for gate (n_rows, k) and packs the result into `packed`.
void activate_pack(Stream& stream, Activation activation, float* gate, const float* up, const PackedInputs& packed);

/// A matrix that inputs are multiplied by, with bias and output.
struct Matmul {
  PackedMatrix weight;
  const float* bias = nullptr;  ///< (n_out), or null
  float* out = nullptr;         ///< (n_rows, n_out)
};
inline constexpr size_t kMaxProducts = 3;

/// Computes out = x · weightᵀ + bias for 1 to kMaxProducts matrices of one format (same_format). k is split into
/// kSplits parts that are summed separately and added in order, so that a row's result does not depend on the number of
/// rows. `fast_sums` computes one sum instead if there are many rows.
void multiply(Stream& stream, const PackedInputs& x, const Matmul* products, size_t n_products, bool fast_sums = false);
/// Returns true if one kernel can multiply by both matrices.
[[nodiscard]] constexpr bool same_format(const PackedMatrix& a, const PackedMatrix& b) {
  return a.kind == b.kind && a.bits == b.bits && a.group == b.group && a.minimums == b.minimums;
}

/// A product with a matrix per head: the first weight.k elements of each head of `in` (n_rows, n_heads, in_dim) are
/// multiplied, and the first weight.n_out elements of each head of `out` (n_rows, n_heads, out_dim) are the result.
struct HeadsProduct {
  PackedMatrix weight;  ///< first matrix of a stack with a matrix per head
  const float* in = nullptr;
  float* out = nullptr;
  uint32_t in_dim = 0;
  uint32_t out_dim = 0;
  uint32_t n_heads = 0;
  uint32_t n_rows = 0;

  /// Returns the number of rows of each head in the packed inputs, a multiple of kTileColumns.
  [[nodiscard]] FOLIO_BOTH constexpr size_t padded_rows() const {
    return ceil_div(n_rows, kTileColumns) * kTileColumns;
  }
};
/// Computes each head's product, bit-identical to multiply(), and fills the rest of the head in `out` with the elements
/// of `in` after the first weight.k. `x` is workspace for n_heads * padded_rows() rows of weight.k elements, in format
/// weight.kind.
void multiply_heads(Stream& stream, const HeadsProduct& product, const PackedInputs& x);

/// A view of an adapter's low-rank update of a matrix: scale · b a.
struct AdapterPart {
  const float* a = nullptr;  ///< (rank, k)
  const float* b = nullptr;  ///< (n_out, rank)
  uint32_t rank = 0;         ///< 0: no update
  float scale = 0.0F;
};
inline constexpr size_t kMaxAdapterRank = 256;

/// Adds each row's adapter update: for row r with p = parts[slots[r]], adds p.scale · p.b p.a x[r] to out[r]. x is
/// (n_rows, k), out (n_rows, n_out), and slots (n_rows), negative for no adapter. All arrays are in device memory.
void add_adapted(Stream& stream, const float* x, size_t n_rows, size_t k, const int32_t* slots,
                 const AdapterPart* parts, float* out, size_t n_out);

/// The rows of a step.
struct RowsView {
  const int32_t* positions = nullptr;  ///< (rows): position in the row's sequence
  const int32_t* tables = nullptr;     ///< (rows): offset in `blocks` of the row's block table
  const int32_t* blocks = nullptr;     ///< block tables, concatenated
  uint32_t n_rows = 0;
};

/// Numbers of heads and their size.
struct Heads {
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;

  [[nodiscard]] FOLIO_BOTH constexpr uint32_t queries() const { return n_heads / n_kv_heads; }  ///< per KV head
};

/// RoPE angles. The first `rotated` dimensions of a head form pairs: (i, i + rotated / 2) if `halves`, else
/// (2 i, 2 i + 1).
struct Angles {
  const float* cosines = nullptr;  ///< (positions, rotated / 2)
  const float* sines = nullptr;
  uint32_t rotated = 0;
  bool halves = false;
};

/// Rotates the pairs of query (rows, n_heads, head_dim) and key (rows, n_kv_heads, head_dim) in place by the angles of
/// their positions (Su et al. 2021), and stores key and value in layer `layer` of the cache. For a cache of latents,
/// `key` is (rows, cache.head_dim), and the pairs are the last dimensions of a query head and of a key.
void rotate_and_store(Stream& stream, const RowsView& rows, const Heads& heads, const Angles& angles, float* query,
                      float* key, const float* value, const CacheView& cache, size_t layer);

/// The attention work of a warp: consecutive rows of one sequence, or some heads of one row, at most 16 (row, head)
/// pairs that share a key/value head.
struct AttentionItem {
  int32_t row;     ///< first row
  int32_t n_rows;  ///< 0: empty item that fills up a group of kGroupItems items
  int32_t query;   ///< first of n_queries query heads, among those that share a key/value head
  int32_t n_queries;
};
inline constexpr size_t kItemSlots = 16;
inline constexpr size_t kGroupItems = 8;      ///< maximum items per block, all of one sequence, if partials is null
inline constexpr size_t kPartPositions = 64;  ///< positions per part; each part's attention is computed separately
inline constexpr size_t kMaxGpuHeadDim = 256;
inline constexpr size_t kMaxLatentRank = 512;  ///< maximum of kv_lora_rank and of qk_rope_head_dim

struct Attention {
  RowsView rows;
  Heads heads;
  CacheView cache;
  size_t layer = 0;
  int32_t window = 0;                    ///< positions that a row attends to, its own included
  const AttentionItem* items = nullptr;  ///< (n_items), in device memory; ordered by row within a sequence
  uint32_t n_items = 0;
  uint32_t n_slots = 0;          ///< upper bound on the (row, head) pairs of an AttentionItem
  uint32_t max_parts = 0;        ///< upper bound on the parts of kPartPositions positions per AttentionItem
  float scale = 0.0F;            ///< factor of query · key
  float cap = 0.0F;              ///< if > 0, scaled scores s become cap · tanh(s / cap)
  const float* sinks = nullptr;  ///< (n_heads): an extra score per head whose value vector is 0; null: none
  const float* query = nullptr;  ///< (rows, n_heads, head_dim)
  float* out = nullptr;          ///< (rows, n_heads, head_dim)
  float* partials = nullptr;     ///< partial_bytes() of workspace; null: one warp computes all positions
  uint32_t* counters = nullptr;  ///< (n_items, n_kv_heads): finished blocks; zero between launches
  size_t shared_bytes = 0;       ///< maximum shared memory of a block
};

/// Computes out = softmax(scale q kᵀ) v from the cache, over the positions that a row attends to. Positions are split
/// into parts, which are joined in order by online softmax (Milakov & Gimelshein 2018; Dao 2023). With `partials`, an
/// item's parts are computed in parallel, and the last block to finish joins them. If `partials` is null, one warp
/// computes them one after another, and items must be in groups of kGroupItems. Results are bit-identical. For a cache
/// of latents, heads have cache.head_dim elements, and only the first latent_rank elements of a head of `out` are set.
void attention(Stream& stream, const Attention& in);
void attention_to_latents(Stream& stream, const Attention& in);  ///< attention() for a cache of latents
/// Returns the size in bytes of Attention::partials for a step.
[[nodiscard]] constexpr size_t partial_bytes(const Attention& in) {
  const size_t padded = in.cache.latent_rank > 0 ? kMaxLatentRank : in.cache.padded();
  return size_t{1} * in.n_items * in.heads.n_kv_heads * in.n_slots * in.max_parts * (padded + 2) * sizeof(float);
}

}  // namespace folio::infer::gpu
