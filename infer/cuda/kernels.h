// What each kernel of this folder computes: one operation a file, of the same name. All run on the stream's device, on
// device memory, and return before they are done. Where there are two forms, the plain one is there to be read and
// timed against; the engine takes the fast one. The results of both lie within the bounds that the tests derive from
// reference/, and those of the fast ones don't depend on how rows are batched, but where `fast_sums` says so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/cuda/device.h"
#include "infer/cuda/layout.h"

namespace folio::infer::gpu {

enum class Form : uint8_t { Plain, Fast };

/// out (n_rows, k) = scale times the rows `tokens` (n_rows) of the matrix, which are the file's numbers exactly. In
/// place of a token may stand a forward/machine.h: drawn_token(), an index of `drawn`; where that is no token, the row
/// is any.
void embed(Stream& stream, const PackedMatrix& table, const int32_t* tokens, const int32_t* drawn, float scale,
           size_t n_rows, float* out);

/// What is to be added to rows of the residual stream: scale times the numbers, or nothing if they are null.
struct Delta {
  const float* numbers = nullptr;
  float scale = 1.0F;
};

/// to (n, dim) = the rows of `from` that `rows` (n) lists, with their part of `delta`. `to` is not `from`.
void gather(Stream& stream, const float* from, const Delta& delta, const int32_t* rows, size_t n, size_t dim,
            float* to);

/// x (n) += delta.
void add(Stream& stream, float* x, const Delta& delta, size_t n);

/// x (n) becomes scale x, and then cap · tanh(x / cap), if the cap isn't 0: kernels::soft_cap, bit for bit.
void finish_logits(Stream& stream, float* x, size_t n, float scale, float cap);

/// Whole blocks of the cache: block pairs[2 i] goes to pairs[2 i + 1].
void copy_blocks(Stream& stream, const CacheView& cache, const int32_t* pairs, size_t n);

/// Brings rows x (n_rows, k) into the order and kind of `to`. F16: each row is multiplied by a power of two so that its
/// largest magnitude lies in [2^14, 2^15), and rounded; row_scales has the inverse. BF16: rounded. Groups: quantized as
/// quantize in reference/kernels.h says, bit for bit.
void pack_inputs(Stream& stream, const float* x, const PackedInputs& to, Form form = Form::Fast);

/// out (n_vectors, dim) = RMSNorm(x) * weight, x_i / sqrt(mean(x²) + eps) * weight_i. Zhang & Sennrich 2019. `out` may
/// be x.
void rms_norm(Stream& stream, const float* x, const float* weight, float eps, size_t n_vectors, size_t dim, float* out,
              Form form = Form::Fast);
/// x += delta, out = RMSNorm(x) * weight, and `packed` = out packed: three operations in one.
void add_norm_pack(Stream& stream, float* x, const Delta& delta, const float* weight, float eps, float* out,
                   const PackedInputs& packed);

enum class Activation : uint8_t { Silu, Gelu, Clamped };

/// gate (n) = silu(gate) * up (Shazeer 2020), or the others: kernels::swiglu, geglu and clamped_swiglu, bit for bit.
void activate(Stream& stream, Activation activation, float* gate, const float* up, size_t n);
/// The same, and `packed` = the result packed; gate is (n_rows, k).
void activate_pack(Stream& stream, Activation activation, float* gate, const float* up, const PackedInputs& packed);

/// One of the matrices that an input is multiplied by.
struct Product {
  PackedMatrix weight;
  const float* bias = nullptr;  ///< (n_out), or null
  float* out = nullptr;         ///< (n_rows, n_out)
};
inline constexpr size_t kMaxProducts = 3;

/// Each product's out = x · weightᵀ + bias, for 1 to kMaxProducts matrices of one format (same_format). k is cut into
/// kSplits parts of whole blocks, each summed from zero, and the sums added in the order of the parts, whatever the
/// number of rows. `fast_sums`: where there are many rows, in one sum.
void multiply(Stream& stream, const PackedInputs& x, const Product* products, size_t n_products,
              bool fast_sums = false);
/// Whether one kernel multiplies by both.
[[nodiscard]] constexpr bool same_format(const PackedMatrix& a, const PackedMatrix& b) {
  return a.kind == b.kind && a.bits == b.bits && a.group == b.group && a.minimums == b.minimums;
}
/// The plain form: a thread for each output, on inputs as they are.
void multiply_plain(Stream& stream, const float* x, size_t n_rows, const Product& product);

/// What an adapter adds to a product. A view.
struct LowRank {
  const float* a = nullptr;  ///< (rank, k)
  const float* b = nullptr;  ///< (n_out, rank)
  uint32_t rank = 0;         ///< 0: nothing
  float scale = 0.0F;
};
inline constexpr size_t kMaxLowRank = 256;

/// out (n_rows, n_out) += scale · b a x, for the rows x (n_rows, k) whose slot (n_rows) is not below 0: there
/// parts[slot] is added. All on the device.
void add_adapted(Stream& stream, const float* x, size_t n_rows, size_t k, const int32_t* slots, const LowRank* parts,
                 float* out, size_t n_out);

/// The rows of a step.
struct RowsView {
  const int32_t* tokens = nullptr;     ///< (rows)
  const int32_t* positions = nullptr;  ///< (rows)
  const int32_t* tables = nullptr;     ///< (rows): where in `blocks` the block table of a row's sequence begins
  const int32_t* blocks = nullptr;     ///< block tables, one after the other
  uint32_t n_rows = 0;
};

/// The widths of attention.
struct Heads {
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;

  [[nodiscard]] FOLIO_BOTH constexpr uint32_t queries() const { return n_heads / n_kv_heads; }  ///< that share keys
};

/// RoPE's: the first `rotated` numbers of a head are turned, in pairs (i, i + rotated / 2), or (2 i, 2 i + 1).
struct Angles {
  const float* cosines = nullptr;  ///< (positions, rotated / 2)
  const float* sines = nullptr;
  uint32_t rotated = 0;
  bool halves = false;
};

/// Rotates the pairs of query (rows, n_heads, head_dim) and key (rows, n_kv_heads, head_dim) in place by the angles of
/// their positions (Su et al. 2021), and stores key and value in layer `layer` of the cache.
void rotate_and_store(Stream& stream, const RowsView& rows, const Heads& heads, const Angles& angles, float* query,
                      float* key, const float* value, const CacheView& cache, size_t layer, Form form = Form::Fast);

/// Consecutive rows of one sequence, or some heads of one row, that a warp attends for together: at most 16 (row, head)
/// pairs that share a key/value head.
struct AttentionItem {
  int32_t row;     ///< the first
  int32_t n_rows;  ///< 0: fills up a group of kGroupItems
  int32_t query;   ///< the first of the queries that share a key/value head, and how many of them
  int32_t n_queries;
};
inline constexpr size_t kItemSlots = 16;
inline constexpr size_t kGroupItems = 8;      ///< items of one sequence that a block attends for, without partials
inline constexpr size_t kPartPositions = 64;  ///< positions that are computed separately and then joined in order
inline constexpr size_t kMaxGpuHeadDim = 256;

struct Attention {
  RowsView rows;
  Heads heads;
  CacheView cache;
  size_t layer = 0;
  int32_t window = 0;                    ///< a row sees so many positions, its own included
  const AttentionItem* items = nullptr;  ///< on the device; of a sequence in order
  uint32_t n_items = 0;
  uint32_t n_slots = 0;          ///< at least the (row, head) pairs of any item
  uint32_t max_parts = 0;        ///< at least the parts of kPartPositions that any row sees, counted from its first one
  float scale = 0.0F;            ///< of query · key
  float cap = 0.0F;              ///< scaled scores s become cap · tanh(s / cap); 0: they stay
  const float* sinks = nullptr;  ///< (n_heads): of each a score more, whose value is 0; or null
  const float* query = nullptr;  ///< (rows, n_heads, head_dim)
  float* out = nullptr;          ///< (rows, n_heads, head_dim)
  float* partials = nullptr;     ///< partial_bytes(); null: no parts in parallel
  uint32_t* counters = nullptr;  ///< (n_items, n_kv_heads), zero before and after
  size_t shared_bytes = 0;       ///< that a block may have
};

/// out = softmax(scale q kᵀ) v over the positions that a row sees, read from the cache. Positions are cut into parts
/// counted from 0; of each part m = max s, p = exp(s - m), Σ p and Σ p v; the parts are joined in order, each rescaled
/// to the larger maximum (online softmax, Milakov & Gimelshein 2018; Dao 2023). With `partials`, the parts of an item
/// are computed side by side and the last one that is ready joins them; without, a warp goes through them, and the
/// items come in groups of kGroupItems. Both give the same bits.
void attention(Stream& stream, const Attention& in, Form form = Form::Fast);
/// Of the partials of a step.
[[nodiscard]] constexpr size_t partial_bytes(const Attention& in) {
  return size_t{1} * in.n_items * in.heads.n_kv_heads * in.n_slots * in.max_parts * (in.cache.padded() + 2) *
         sizeof(float);
}

}  // namespace folio::infer::gpu
