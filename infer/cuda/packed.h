// Reads single elements of a packed matrix on the device, for the plain kernels and the embedding.
#pragma once

#include "infer/cuda/layout.h"
#include "infer/cuda/numbers.h"

namespace folio::infer::gpu {

/// Returns the scale or minimum at `index` (PackedMatrix::scale_index()), stored as F16 if `half`, else as F32.
[[nodiscard]] __device__ inline float scale_at(const uint8_t* scales, size_t index, bool half) {
  return half ? from_f16(reinterpret_cast<const uint16_t*>(scales)[index])
              : reinterpret_cast<const float*>(scales)[index];
}

/// Returns weight[row, column] as a float.
[[nodiscard]] __device__ inline float weight_at(const PackedMatrix& m, size_t row, size_t column) {
  const uint8_t* block = m.data + m.block_offset(row / kTileRows, column / kBlockK);
  const size_t r = row % kTileRows;
  const size_t c = column % kBlockK;
  const uint8_t* number = block + m.number_offset(r, c);
  if (m.kind == Kind::F32) return *reinterpret_cast<const float*>(number);
  if (m.kind == Kind::F16) return from_f16(*reinterpret_cast<const uint16_t*>(number));
  if (m.kind == Kind::BF16) return from_bf16(*reinterpret_cast<const uint16_t*>(number));
  const int quant = m.bits == 8 ? *reinterpret_cast<const int8_t*>(number)
                                : static_cast<int>(*number >> m.nibble_shift(c) & 15U) - m.zero_point;
  const uint8_t* scales = block + m.number_block_bytes();
  const size_t index = m.scale_index(r, c);
  const float value = scale_at(scales, index, m.half_scales) * static_cast<float>(quant);
  return m.minimums ? value + scale_at(scales + m.scale_block_bytes(), index, m.half_scales) : value;
}

}  // namespace folio::infer::gpu
