// Weights in groups and quantized inputs, as matmul_groups reads them.
//
// Sixteen rows form a tile. Each lane of a vector is one row, so no lanes have to be joined. Within a tile the groups
// of 32 columns follow each other. Four neighbouring columns of the sixteen rows are 64 bytes, row by row: the operand
// of one dot-product instruction. 4-bit quants share bytes: columns 0..15 of the 32 are the low nibbles, 16..31 the
// high ones. After the quants come the scales, [k / group][16], and then the minimums in the same layout. The last tile
// is padded with rows of zeros.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::infer::kernels {

inline constexpr size_t kTileRows = 16;
inline constexpr size_t kGroupColumns = 32;  ///< columns of an input that share a scale

/// weight[r, c] = scale * (quant - zero_point), or scale * quant + minimum. A view.
struct GroupMatrix {
  const uint8_t* tiles;  ///< (ceil(rows / 16), tile_bytes()), aligned to 64 bytes
  size_t k;              ///< columns, a multiple of 32
  size_t group;          ///< columns that share a scale: 32, or 16 (then without minimums)
  int32_t zero_point;    ///< a power of two, or 0
  bool nibbles;          ///< quants of 4 bits, else of 8
  bool minimums;
  bool half;  ///< scales and minimums are F16, else F32

  [[nodiscard]] size_t quant_bytes() const { return kTileRows * k / (nibbles ? 2 : 1); }
  [[nodiscard]] size_t scale_bytes() const { return kTileRows * (k / group) * (half ? 2 : 4); }
  [[nodiscard]] size_t tile_bytes() const {
    const size_t bytes = quant_bytes() + scale_bytes() * (minimums ? 2 : 1);
    return (bytes + 63) / 64 * 64;
  }
  [[nodiscard]] const uint8_t* tile(size_t index) const { return tiles + index * tile_bytes(); }
};

/// The parts of one quantized input: values (k), scales and scaled_sums (k / 32), sums (k / 16).
struct QuantizedRow {
  int8_t* values;  ///< in [-127, 127]
  float* scales;
  float* scaled_sums;  ///< scale * Σ of the 32 values
  int32_t* sums;       ///< Σ of 16 values
};

/// The same of several inputs of equal length, one after the other.
struct QuantizedRows {
  const int8_t* values;
  const float* scales;
  const float* scaled_sums;
  const int32_t* sums;
};

}  // namespace folio::infer::kernels
