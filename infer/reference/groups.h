// The operands of matmul_groups: group-quantized weights and quantized inputs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/quants.h"

namespace folio::infer::kernels {

inline constexpr size_t kTileRows = 16;
inline constexpr size_t kGroupColumns = 32;   ///< columns of an input that share a scale
inline constexpr size_t kBlockColumns = 256;  ///< columns per block of a tile

/// Returns the size in bytes of the quants of one tile (16 rows) and one group (32 columns), with `bits` per quant.
[[nodiscard]] constexpr size_t group_quant_bytes(size_t bits) { return kTileRows * kGroupColumns * bits / 8; }

// The layout of GroupMatrix::tiles. Sixteen rows form a tile, one row per vector lane, so lanes are never summed. A
// tile is read sequentially. It consists of blocks of 256 columns, each with these parts in order:
//
//   factors   (16) F16 for the scales, then (16) F16 for any minimums; only with byte_scales and without fp4
//   scales    (groups, 16), F16 or bytes
//   minimums  like the scales, if the type has minimums
//   quants    for each group of 32 columns. 8-bit quants are bytes (8, 16 rows, 4 columns): four adjacent columns of
//             the sixteen rows are the 64-byte operand of one dot-product instruction. With fewer bits, bytes (4, 16
//             rows, 4 columns) contain the low nibbles of two quants: column c < 16 in the low half, column c + 16 in
//             the high half. The upper bits follow. 5-bit quants have a byte per row and c mod 4, whose bit i belongs
//             to column 4 i + c mod 4. 6-bit quants have two such bytes of bit pairs, for columns c < 16 and c >= 16.
//
// The last block of a row may have fewer groups. Blocks and their quants begin at cache lines. The last tile is padded
// with zeros.
/// A view of group-quantized weights: weight[r, c] = scale * (quant - zero_point), or scale * quant + minimum.
struct GroupMatrix : core::QuantInfo {
  const uint8_t* tiles;  ///< (ceil(rows / 16), tile_bytes()), aligned to 64 bytes
  size_t k;              ///< columns: a multiple of 32, or of 256 if the type is Q4_K, Q5_K or Q6_K

  /// Returns the number of groups of 32 columns in a block.
  [[nodiscard]] size_t groups_of(size_t block) const {
    return std::min(kBlockColumns, k - block * kBlockColumns) / kGroupColumns;
  }
  // Return byte offsets in a block with n groups of 32 columns. The factors, if any, are at offset 0.
  [[nodiscard]] size_t scales_at() const { return !byte_scales || fp4 ? 0 : kTileRows * (minimums ? 4 : 2); }
  [[nodiscard]] size_t minimums_at(size_t n) const {
    return scales_at() + n * (kGroupColumns / group) * kTileRows * (byte_scales ? 1 : 2);
  }
  [[nodiscard]] size_t quants_at(size_t n) const {
    const size_t end = minimums ? 2 * minimums_at(n) - scales_at() : minimums_at(n);
    return (end + 63) / 64 * 64;
  }
  [[nodiscard]] size_t block_bytes(size_t n) const { return quants_at(n) + n * group_quant_bytes(bits); }
  [[nodiscard]] size_t tile_bytes() const {
    const size_t rest = k % kBlockColumns / kGroupColumns;
    return k / kBlockColumns * block_bytes(kBlockColumns / kGroupColumns) + (rest > 0 ? block_bytes(rest) : 0);
  }
  [[nodiscard]] const uint8_t* tile(size_t index) const { return tiles + index * tile_bytes(); }
  [[nodiscard]] const uint8_t* block(size_t tile_index, size_t block) const {
    return tile(tile_index) + block * block_bytes(kBlockColumns / kGroupColumns);
  }
};

/// Quantized inputs of equal length. The layout depends on the instruction set, so quantize and matmul_groups must be
/// from the same Kernels. The reference stores inputs one after the other; the vector kernels interleave those of one
/// quantize() call. n inputs need n times the memory of one.
struct QuantizedInputs {
  int8_t* values;      ///< (k) per input, in [-127, 127]
  float* scales;       ///< (k / 32) per input
  float* scaled_sums;  ///< (k / 32) per input: scale * Σ of the 32 values
  int32_t* sums;  ///< (k / 32, 3) per input: -Σ of all 32, the first 16, the last 16 values; unused by the reference
};

/// Returns a view of x that begins at input `first`. Each input has k elements. `first` must be the first input of a
/// Kernels::quantize() call, because AMX interleaves the inputs of a call. Inlined, so that each caller compiles it for
/// its own instruction set.
[[nodiscard, gnu::always_inline]] inline QuantizedInputs from(const QuantizedInputs& x, size_t first, size_t k) {
  const size_t groups = first * (k / kGroupColumns);
  return {.values = x.values + first * k,
          .scales = x.scales + groups,
          .scaled_sums = x.scaled_sums + groups,
          .sums = x.sums + groups * 3};
}

}  // namespace folio::infer::kernels
