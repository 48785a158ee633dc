// Layouts in device memory. Weights, inputs of products and the KV cache are stored in the order in which a warp's
// lanes read them for the tensor cores (mma.h): a lane's 16 bytes are contiguous, and so are a warp's 512. Kernels load
// tiles without shuffles. README.md draws a tile. Host and device use the same functions.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define FOLIO_BOTH __host__ __device__
#else
#define FOLIO_BOTH
#endif

namespace folio::infer::gpu {

inline constexpr size_t kTileRows = 16;    ///< weight rows, and thus outputs, of a tile
inline constexpr size_t kTileColumns = 8;  ///< batch rows in a tile of inputs
inline constexpr size_t kBlockK = 128;     ///< columns of a block; k is padded to whole blocks with zeros
inline constexpr size_t kSplits = 8;       ///< parts of k that are summed separately and then added in order
inline constexpr size_t kGroup = 32;       ///< elements of an input that share a scale

[[nodiscard]] FOLIO_BOTH constexpr size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

/// Storage type of a product's operands, the same for weights and inputs. Groups: groups of columns, each with integer
/// quants (4 or 8 bits for weights, 8 bits for inputs) and a scale.
enum class Kind : uint8_t { F32, F16, BF16, Groups };

/// Returns the size of an element in bytes; for groups, that of an 8-bit quant.
[[nodiscard]] FOLIO_BOTH constexpr size_t number_bytes(Kind kind) {
  return kind == Kind::F32 ? 4 : kind == Kind::Groups ? 1 : 2;
}

/// Position of an element in a tile of operand A or B. A tile has 8 E columns if a 32-bit word holds E elements.
struct Place {
  size_t tile;  ///< index of the tile in its block, along k
  size_t lane_in_group;
  size_t half;    ///< half of the tile's columns: 0 or 1
  size_t number;  ///< index of the element in its 32-bit word
};
[[nodiscard]] FOLIO_BOTH constexpr Place place_of(size_t column, size_t bytes) {
  const size_t e = 4 / bytes;
  const size_t in_tile = column % (8 * e);
  return {column / (8 * e), in_tile % (4 * e) / e, in_tile / (4 * e), in_tile % e};
}

/// A view of a weight matrix on the device, stored as blocks of 16 rows and 128 columns in row-major order. A block has
/// its elements in 512-byte tiles, each loaded by a warp with one instruction, then the scales and minimums of groups.
struct PackedMatrix {
  uint8_t* data = nullptr;
  uint32_t n_out = 0;  ///< rows, stored padded with zeros to a multiple of 16
  uint32_t k = 0;      ///< columns
  Kind kind = Kind::F32;
  // For groups: weight = scale * (quant - zero_point), or scale * quant + minimum if `minimums`.
  uint8_t bits = 0;        ///< bits per quant: 4, or 8 with the zero point subtracted
  uint8_t group = 0;       ///< columns that share a scale: 32 or 16
  uint8_t zero_point = 0;  ///< zero point of 4-bit quants
  bool minimums = false;
  bool half_scales = false;  ///< scales and minimums are F16 instead of F32

  [[nodiscard]] FOLIO_BOTH constexpr size_t row_tiles() const { return ceil_div(n_out, kTileRows); }
  [[nodiscard]] FOLIO_BOTH constexpr size_t k_blocks() const { return ceil_div(k, kBlockK); }
  [[nodiscard]] FOLIO_BOTH constexpr size_t number_block_bytes() const {
    const size_t bytes = kTileRows * kBlockK * number_bytes(kind);
    return kind == Kind::Groups && bits == 4 ? bytes / 2 : bytes;
  }
  [[nodiscard]] FOLIO_BOTH constexpr size_t scale_block_bytes() const {
    return kind == Kind::Groups ? kBlockK / group * kTileRows * (half_scales ? 2 : 4) : 0;
  }
  [[nodiscard]] FOLIO_BOTH constexpr size_t block_bytes() const {
    return number_block_bytes() + scale_block_bytes() * (minimums ? 2 : 1);
  }
  [[nodiscard]] FOLIO_BOTH constexpr size_t tile_bytes() const { return k_blocks() * block_bytes(); }
  [[nodiscard]] FOLIO_BOTH constexpr size_t bytes() const { return row_tiles() * tile_bytes(); }
  [[nodiscard]] FOLIO_BOTH constexpr size_t block_offset(size_t row_tile, size_t block) const {
    return row_tile * tile_bytes() + block * block_bytes();
  }

  /// Returns the byte offset of an element in its block. `row` and `column` are relative to the block. With 4 bits,
  /// tiles 0 and 2 are in the lower halves of bytes, tiles 1 and 3 in the upper halves.
  [[nodiscard]] FOLIO_BOTH constexpr size_t number_offset(size_t row, size_t column) const {
    const size_t bytes = number_bytes(kind);
    const Place p = place_of(column, bytes);
    const size_t tile = kind == Kind::Groups && bits == 4 ? p.tile / 2 : p.tile;
    const size_t lane = row % 8 * 4 + p.lane_in_group;
    return (tile * 32 + lane) * 16 + (p.half * 2 + row / 8) * 4 + p.number * bytes;
  }
  [[nodiscard]] FOLIO_BOTH constexpr size_t nibble_shift(size_t column) const { return column / 32 % 2 * 4; }
  /// Returns the index of a group's scale in its block. Rows g and g + 8 are adjacent because a lane reads both.
  [[nodiscard]] FOLIO_BOTH constexpr size_t scale_index(size_t row, size_t column) const {
    return (column / group * 8 + row % 8) * 2 + row / 8;
  }
};

/// A view of a product's inputs, packed as mma operand B: (column tiles of 8 input rows, blocks of k). For groups, a
/// block's quants are followed by scales, (4 groups, 8 rows) floats, then by scale * Σ quant in the same order.
struct PackedInputs {
  uint8_t* data = nullptr;
  float* row_scales = nullptr;  ///< for F16: (rows), powers of two by which products are multiplied
  uint32_t n_rows = 0;
  uint32_t k = 0;
  Kind kind = Kind::F32;

  [[nodiscard]] FOLIO_BOTH constexpr size_t column_tiles() const { return ceil_div(n_rows, kTileColumns); }
  [[nodiscard]] FOLIO_BOTH constexpr size_t k_blocks() const { return ceil_div(k, kBlockK); }
  [[nodiscard]] FOLIO_BOTH constexpr size_t number_block_bytes() const {
    return kTileColumns * kBlockK * number_bytes(kind);
  }
  [[nodiscard]] FOLIO_BOTH constexpr size_t block_bytes() const {
    const size_t scales = kBlockK / kGroup * kTileColumns * sizeof(float);
    return number_block_bytes() + (kind == Kind::Groups ? 2 * scales : 0);
  }
  [[nodiscard]] FOLIO_BOTH constexpr size_t tile_bytes() const { return k_blocks() * block_bytes(); }
  [[nodiscard]] FOLIO_BOTH constexpr size_t bytes() const { return column_tiles() * tile_bytes(); }
  [[nodiscard]] FOLIO_BOTH constexpr size_t block_offset(size_t column_tile, size_t block) const {
    return column_tile * tile_bytes() + block * block_bytes();
  }
  /// Returns the byte offset of an element in its block. The 16 bytes that a lane loads are elements of two tiles.
  [[nodiscard]] FOLIO_BOTH constexpr size_t number_offset(size_t row, size_t column) const {
    const size_t bytes = number_bytes(kind);
    const Place p = place_of(column, bytes);
    const size_t lane = row * 4 + p.lane_in_group;
    return (p.tile / 2 * 32 + lane) * 16 + p.tile % 2 * 8 + p.half * 4 + p.number * bytes;
  }
  /// Returns the byte offset of a group's scale in its block. sum_offset() returns the offset of scale * Σ quant.
  [[nodiscard]] FOLIO_BOTH constexpr size_t scale_offset(size_t row, size_t group) const {
    return number_block_bytes() + (group * kTileColumns + row) * sizeof(float);
  }
  [[nodiscard]] FOLIO_BOTH constexpr size_t sum_offset(size_t row, size_t group) const {
    return scale_offset(row, group) + kBlockK / kGroup * kTileColumns * sizeof(float);
  }
};

/// A view of a stage's KV cache: (blocks, layers, keys then values, n_kv_heads, 32 positions x padded() elements), F32
/// or F16. Keys are mma operand B of the scores (column = position, k = head dimension), values are operand B of the
/// output (column = dimension, k = position). In latent attention, there are only keys: the latents.
struct CacheView {
  uint8_t* data = nullptr;
  uint32_t n_layers = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  bool half = false;
  uint32_t latent_rank = 0;  ///< latent attention: a value is a key's first latent_rank elements; 0: values are stored

  static constexpr size_t kPositions = 32;

  /// Returns head_dim padded to 32, 64, 128 or 256, or to a multiple of 64 for latents. The padding stays zero.
  [[nodiscard]] FOLIO_BOTH constexpr size_t padded() const {
    if (latent_rank > 0) return ceil_div(head_dim, 64) * 64;
    return head_dim <= 32 ? 32 : head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
  }
  [[nodiscard]] FOLIO_BOTH constexpr size_t number_bytes() const { return half ? 2 : 4; }
  [[nodiscard]] FOLIO_BOTH constexpr size_t head_bytes() const { return kPositions * padded() * number_bytes(); }
  [[nodiscard]] FOLIO_BOTH constexpr size_t value_dim() const { return latent_rank > 0 ? latent_rank : head_dim; }
  /// Returns the number of arrays per layer: 2 (keys, values), or 1 (latents).
  [[nodiscard]] FOLIO_BOTH constexpr size_t n_arrays() const { return latent_rank > 0 ? 1 : 2; }
  [[nodiscard]] FOLIO_BOTH constexpr size_t block_bytes() const {
    return n_layers * n_arrays() * n_kv_heads * head_bytes();
  }
  [[nodiscard]] FOLIO_BOTH constexpr size_t key_offset(size_t block, size_t layer, size_t head) const {
    return block * block_bytes() + (layer * n_arrays() * n_kv_heads + head) * head_bytes();
  }
  [[nodiscard]] FOLIO_BOTH constexpr size_t value_offset(size_t block, size_t layer, size_t head) const {
    return key_offset(block, layer, head) + (n_arrays() - 1) * n_kv_heads * head_bytes();
  }

  /// Returns the index, in elements, of dimension `d` of a position in a head's keys. A tile has eight positions. A
  /// lane's 16 bytes are consecutive dimensions of one position. The query must have the same order of dimensions.
  [[nodiscard]] FOLIO_BOTH constexpr size_t key_index(size_t position, size_t d) const {
    const size_t lane_numbers = 16 / number_bytes();
    const size_t groups = padded() / (4 * lane_numbers);
    const size_t tile = position / 8 * groups + d / (4 * lane_numbers);
    const size_t lane = position % 8 * 4 + d % (4 * lane_numbers) / lane_numbers;
    return (tile * 32 + lane) * lane_numbers + d % lane_numbers;
  }
  /// Returns the index, in elements, of dimension `d` of a position in a head's values. A dimension's 32 positions are
  /// contiguous. Position 8 j + 2 t + b (j, t < 4, b < 2) is at 8 t + 2 j + b, so that the positions of a lane's
  /// eight probabilities are contiguous. With latent attention, a value is a part of the key: the index is key_index().
  [[nodiscard]] FOLIO_BOTH constexpr size_t value_index(size_t position, size_t d) const {
    if (latent_rank > 0) return key_index(position, d);
    const size_t j = position / 8;
    const size_t t = position % 8 / 2;
    return d * kPositions + 8 * t + 2 * j + position % 2;
  }
};

}  // namespace folio::infer::gpu
