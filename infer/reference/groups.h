// Weights in groups and quantized inputs, as matmul_groups reads them.
//
// Sixteen rows form a tile. Each lane of a vector is one row, so no lanes have to be joined. A tile is read from its
// first byte to its last: 256 columns form a block of it, whose parts follow each other:
//
//   factors   where scales are bytes, but for powers of two: what they are multiplied by, (16) F16 for the scales and
//             (16) for the minimums
//   scales    (groups, 16), F16, or bytes
//   minimums  the same, where the type has them
//   quants    group by group of 32 columns. Four neighbouring columns of the sixteen rows are 64 bytes, row by row: the
//             operand of one dot-product instruction. Quants of 8 bits are these bytes. Of shorter ones a byte has the
//             low nibbles of two: column c of the first sixteen in its low half, c + 16 in its high half. The bits
//             above follow: of 5 bits one byte for each row and column mod 4, whose bit i is that of the columns 4 i to
//             4 i + 3; of 6 bits two such bytes, with pairs of bits, for the first and the second sixteen columns.
//
// The last block of a row may have fewer groups. Quants begin at a cache line, and so does a block. The last tile is
// padded with zeros.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace folio::infer::kernels {

inline constexpr size_t kTileRows = 16;
inline constexpr size_t kGroupColumns = 32;   ///< columns of an input that share a scale
inline constexpr size_t kBlockColumns = 256;  ///< columns of a block of a tile

/// Bytes of the quants of a group of 32 columns.
[[nodiscard]] constexpr size_t group_quant_bytes(int bits) {
  return kTileRows * kGroupColumns * static_cast<size_t>(bits) / 8;
}

/// weight[r, c] = scale * (quant - zero_point), or scale * quant + minimum. A view.
struct GroupMatrix {
  const uint8_t* tiles;  ///< (ceil(rows / 16), tile_bytes()), aligned to 64 bytes
  size_t k;              ///< columns, a multiple of 32; of 256 where scales are bytes
  size_t group;          ///< columns that share a scale: 32, or 16 (then without minimums)
  int32_t zero_point;    ///< a power of two, or 0
  int bits;              ///< of a quant: 4, 5, 6 or 8
  bool minimums;
  bool byte_scales;  ///< scale = factor * byte, minimum = -factor * byte; the bytes are signed where there are no
                     ///< minimums
  bool fp4 = false;  ///< MXFP4: the quants are core::kFp4Quants of the bits, and a scale is half_scale_of(byte)

  /// Groups of 32 columns in a block.
  [[nodiscard]] size_t groups_of(size_t block) const {
    return std::min(kBlockColumns, k - block * kBlockColumns) / kGroupColumns;
  }
  // Where the parts of a block with n groups begin; its factors do so at 0.
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

/// Inputs of equal length that quantize writes and matmul_groups of the same kernels reads. n of them take n times as
/// much room as one, and sixteen follow sixteen. How sixteen lie there is up to the kernels: the reference has one
/// after the other.
struct QuantizedInputs {
  int8_t* values;      ///< (k) of each, in [-127, 127]
  float* scales;       ///< (k / 32)
  float* scaled_sums;  ///< (k / 32): scale * Σ of the 32 values
  int32_t* sums;       ///< (k / 32, 3), where kernels use them: -Σ of the 32 values, of the first 16, of the last 16
};

}  // namespace folio::infer::kernels
