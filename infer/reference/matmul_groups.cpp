#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/float16.h"
#include "core/quants.h"
#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {
namespace {

float half_at(const uint8_t* numbers, size_t index) {
  uint16_t bits;
  std::memcpy(&bits, numbers + index * sizeof bits, sizeof bits);
  return core::f16_to_float(bits);
}

// The location of a row and column in GroupMatrix::tiles: a block of a tile, and the lane and column in the block.
struct InBlock {
  InBlock(const GroupMatrix& m, size_t row, size_t column)
      : bytes(m.block(row / kTileRows, column / kBlockColumns)),
        n(m.groups_of(column / kBlockColumns)),
        lane(row % kTileRows),
        column(column % kBlockColumns) {}
  const uint8_t* bytes;
  size_t n;  ///< groups of 32 columns in the block
  size_t lane;
  size_t column;
};

}  // namespace

int32_t quant(const GroupMatrix& m, size_t row, size_t column) {
  const InBlock at(m, row, column);
  const uint8_t* group = at.bytes + m.quants_at(at.n) + at.column / kGroupColumns * group_quant_bytes(m.bits);
  const size_t c = at.column % kGroupColumns;
  const size_t four = c / 4;  // index of the four adjacent columns that contain c
  const auto byte = [&](size_t word) { return group[(word * kTileRows + at.lane) * 4 + c % 4]; };
  if (m.bits == 8) return byte(four);
  const int32_t low = c < 16 ? byte(four) & 0x0F : byte(four - 4) >> 4;
  if (m.bits == 5) return low | (byte(4) >> four & 1) << 4;
  if (m.bits == 6) return low | (byte(4 + four / 4) >> four % 4 * 2 & 3) << 4;
  return m.fp4 ? core::kFp4Quants[static_cast<size_t>(low)] : low;
}

float scale(const GroupMatrix& m, size_t row, size_t group) {
  const InBlock at(m, row, group * m.group);
  const uint8_t* scales = at.bytes + m.scales_at();
  const size_t index = at.column / m.group * kTileRows + at.lane;
  if (m.fp4) return core::half_scale_of(scales[index]);
  if (!m.byte_scales) return half_at(scales, index);
  const int byte = m.minimums ? scales[index] : static_cast<int8_t>(scales[index]);
  return half_at(at.bytes, at.lane) * static_cast<float>(byte);
}

float minimum(const GroupMatrix& m, size_t row, size_t group) {
  const InBlock at(m, row, group * m.group);
  const uint8_t* minimums = at.bytes + m.minimums_at(at.n);
  const size_t index = at.column / m.group * kTileRows + at.lane;
  if (!m.byte_scales) return half_at(minimums, index);
  return -(half_at(at.bytes, kTileRows + at.lane) * static_cast<float>(minimums[index]));
}

void quantize(const float* x, size_t n, size_t k, const QuantizedInputs& out) {
  constexpr float kLeast = 1e-30F;  // a group with smaller values becomes 0, since 127 / largest could overflow
  for (size_t g = 0; g < n * k / kGroupColumns; ++g) {
    const float* group = x + g * kGroupColumns;
    int8_t* values = out.values + g * kGroupColumns;
    uint32_t bits = 0;  // bits of the largest |x|; as integers, they sort by magnitude, NaN last
    for (size_t i = 0; i < kGroupColumns; ++i) bits = std::max(bits, std::bit_cast<uint32_t>(group[i]) & 0x7FFFFFFFU);
    const auto largest = std::bit_cast<float>(bits);
    const bool zero = !(largest >= kLeast) || !std::isfinite(largest);
    int32_t sum = 0;
    for (size_t i = 0; i < kGroupColumns; ++i) {
      values[i] = zero ? int8_t{0} : static_cast<int8_t>(std::nearbyint(group[i] * (127.0F / largest)));
      sum += values[i];
    }
    out.scales[g] = largest < kLeast ? 0.0F : largest / 127.0F;
    out.scaled_sums[g] = out.scales[g] * static_cast<float>(sum);
  }
}

void matmul_groups(const QuantizedInputs& x, size_t n_rows, const GroupMatrix& weight, size_t row_begin, size_t row_end,
                   float* out, size_t out_stride, bool accumulate) {
  const size_t k = weight.k;
  for (size_t n = 0; n < n_rows; ++n) {
    const int8_t* values = x.values + n * k;
    const float* scales = x.scales + n * (k / kGroupColumns);
    const float* scaled_sums = x.scaled_sums + n * (k / kGroupColumns);
    for (size_t r = row_begin; r < row_end; ++r) {
      float total = 0.0F;
      for (size_t g = 0; g < k / weight.group; ++g) {
        const size_t wide = g * weight.group / kGroupColumns;  // index of the input's group of 32 columns
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
