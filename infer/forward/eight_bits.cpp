#include "infer/forward/eight_bits.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "infer/reference/kernels.h"

namespace folio::infer {

static_assert(kEightBitsGroup == kernels::kGroupColumns);

EightBits to_eight_bits(std::span<const float, kEightBitsGroup> group) {
  constexpr float kLeast = 1e-30F;     // Kernels::quantize rounds groups with smaller magnitudes to 0
  constexpr float kShift = 0x1.8p23F;  // adding and subtracting 1.5 · 2^23 rounds to an integer, ties to even
  uint32_t bits = 0;                   // bits of the largest magnitude; as integers, they sort by magnitude, NaN last
  for (const float x : group) bits = std::max(bits, std::bit_cast<uint32_t>(x) & 0x7FFFFFFFU);
  EightBits out{.largest = std::bit_cast<float>(bits), .values = {}};
  if (!(out.largest >= kLeast) || !std::isfinite(out.largest)) return out;
  const float factor = 127.0F / out.largest;
  for (size_t i = 0; i < kEightBitsGroup; ++i) {
    const float product = group[i] * factor;
    out.values[i] = static_cast<int8_t>(static_cast<int32_t>((product + kShift) - kShift));
  }
  return out;
}

// Restores the largest value exactly, and with it the group's scale. All other values have a relative error below
// 2^-20, too small to change the integer that they are quantized to.
void from_eight_bits(const EightBits& bits, std::span<float, kEightBitsGroup> group) {
  const float scale = bits.largest / 127.0F;
  for (size_t i = 0; i < kEightBitsGroup; ++i) {
    const float x = static_cast<float>(bits.values[i]) * scale;
    group[i] = bits.values[i] == 127 ? bits.largest : bits.values[i] == -127 ? -bits.largest : x;
  }
  if (std::ranges::all_of(bits.values, [](int8_t value) { return value == 0; })) {
    std::ranges::fill(group, 0.0F);
    group[0] = bits.largest;  // the largest magnitude is too small to quantize, or not finite
  }
}

}  // namespace folio::infer
