// Weights in groups, as matmul_groups reads them, and its quantized inputs.
//
// Rows stand in tiles of sixteen, so that a vector's lane is one row and no lanes are ever joined. Within a tile the
// groups of 32 columns follow each other; four neighbouring columns of the sixteen rows are 64 bytes, row by row: what
// one dot-product instruction takes. Payloads of 4 bits share bytes: columns 0..15 of the 32 in the low halves, 16..31
// in the high ones. Behind the payload come the scales, [k / group][16], and then the minimums, likewise.
// The last tile is filled up with rows of zeros.
#pragma once

#include <cstddef>
#include <cstdint>

namespace folio::infer::kernels {

inline constexpr size_t kTileRows = 16;
inline constexpr size_t kGroupColumns = 32;  ///< columns whose inputs share a scale

/// weight[r, c] = scale * (payload - offset), or scale * payload + minimum. A view.
struct GroupMatrix {
  const uint8_t* tiles;  ///< (ceil(rows / 16), tile_bytes()), aligned to 64 bytes
  size_t k;              ///< columns, a multiple of 32
  size_t group;          ///< columns that share a scale: 32, or 16 where there are no minimums
  int32_t offset;        ///< a power of two, or 0
  bool nibbles;          ///< payloads of 4 bits, else of 8
  bool minimums;
  bool half;  ///< scales and minimums are F16, else F32

  [[nodiscard]] size_t payload_bytes() const { return kTileRows * k / (nibbles ? 2 : 1); }
  [[nodiscard]] size_t scale_bytes() const { return kTileRows * (k / group) * (half ? 2 : 4); }
  [[nodiscard]] size_t tile_bytes() const {
    const size_t bytes = payload_bytes() + scale_bytes() * (minimums ? 2 : 1);
    return (bytes + 63) / 64 * 64;
  }
  [[nodiscard]] const uint8_t* tile(size_t index) const { return tiles + index * tile_bytes(); }
};

/// Where an input's parts go: values (k), scales and scaled_sums (k / 32), sums (k / 16).
struct QuantizedRow {
  int8_t* values;  ///< in [-127, 127]
  float* scales;
  float* scaled_sums;  ///< scale * Σ of the 32 values
  int32_t* sums;       ///< Σ of 16 values
};

/// Inputs of one length, one behind the other.
struct QuantizedRows {
  const int8_t* values;
  const float* scales;
  const float* scaled_sums;
  const int32_t* sums;
};

}  // namespace folio::infer::kernels
