#include <cmath>
#include <cstring>

#include "core/float16.h"
#include "infer/reference/quantize_body.h"
#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {
namespace {

// Element `index` of the scales or minimums at `numbers`.
float number_at(const GroupMatrix& m, const uint8_t* numbers, size_t index) {
  if (!m.half) {
    float value;
    std::memcpy(&value, numbers + index * sizeof value, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, numbers + index * sizeof bits, sizeof bits);
  return core::f16_to_float(bits);
}

}  // namespace

int32_t quant(const GroupMatrix& m, size_t row, size_t column) {
  const uint8_t* tile = m.tile(row / kTileRows);
  const size_t c = column % kGroupColumns;
  const size_t four = m.nibbles ? column / kGroupColumns * 4 + c % 16 / 4 : column / 4;
  const uint8_t byte = tile[(four * kTileRows + row % kTileRows) * 4 + c % 4];
  return !m.nibbles ? byte : c < 16 ? byte & 0x0F : byte >> 4;
}

float scale(const GroupMatrix& m, size_t row, size_t group) {
  return number_at(m, m.tile(row / kTileRows) + m.quant_bytes(), group * kTileRows + row % kTileRows);
}

float minimum(const GroupMatrix& m, size_t row, size_t group) {
  return number_at(m, m.tile(row / kTileRows) + m.quant_bytes() + m.scale_bytes(), group * kTileRows + row % kTileRows);
}

void quantize(const float* x, size_t k, QuantizedRow out) { kernels::quantize(x, k, out); }

void matmul_groups(const QuantizedRows& x, size_t n_rows, const GroupMatrix& weight, size_t row_begin, size_t row_end,
                   float* out, size_t out_stride, bool accumulate) {
  const size_t k = weight.k;
  for (size_t n = 0; n < n_rows; ++n) {
    const int8_t* values = x.values + n * k;
    const float* scales = x.scales + n * (k / kGroupColumns);
    const float* scaled_sums = x.scaled_sums + n * (k / kGroupColumns);
    for (size_t r = row_begin; r < row_end; ++r) {
      float total = 0.0F;
      for (size_t g = 0; g < k / weight.group; ++g) {
        const size_t wide = g * weight.group / kGroupColumns;  // the group of the input
        int32_t sum = 0;
        for (size_t c = g * weight.group; c < (g + 1) * weight.group; ++c) {
          sum += (quant(weight, r, c) - weight.zero_point) * values[c];
        }
        total = std::fma(static_cast<float>(sum), scale(weight, r, g) * scales[wide], total);
        if (weight.minimums) total = std::fma(minimum(weight, r, g), scaled_sums[wide], total);
      }
      float& y = out[n * out_stride + r];
      y = accumulate ? y + total : total;
    }
  }
}

}  // namespace folio::infer::kernels::reference
