// Quantizes inputs to 8 bits, as kernels.h defines it. The compiler vectorizes these loops of fixed length for each
// instruction set. They add no floats, so all give the same bits. Everything has internal linkage: see
// cpu/kernels_body.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "infer/reference/groups.h"

namespace folio::infer::kernels {
namespace {

inline void quantize_group(const float* x, int8_t* values, float* scale, float* scaled_sum, int32_t* sums) {
  uint32_t largest = 0;  // as bits, magnitudes keep their order, and infinity and NaN are largest
  for (size_t i = 0; i < kGroupColumns; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
  const auto m = std::bit_cast<float>(largest);
  constexpr float kLeast = 1e-30F;  // above it, 127 / m is finite
  const bool zero = !(m >= kLeast) || !std::isfinite(m);
  const float inverse = zero ? 0.0F : 127.0F / m;
  int32_t rounded[kGroupColumns] = {};
  if (!zero) {
    for (size_t i = 0; i < kGroupColumns; ++i) rounded[i] = static_cast<int32_t>(std::nearbyint(x[i] * inverse));
  }
  int32_t halves[2] = {};
  for (size_t h = 0; h < 2; ++h) {
    for (size_t i = 0; i < kGroupColumns / 2; ++i) halves[h] += rounded[h * kGroupColumns / 2 + i];
    sums[h] = halves[h];
  }
  for (size_t i = 0; i < kGroupColumns; ++i) values[i] = static_cast<int8_t>(rounded[i]);
  *scale = m < kLeast ? 0.0F : m / 127.0F;
  *scaled_sum = *scale * static_cast<float>(halves[0] + halves[1]);
}

inline void quantize(const float* x, size_t k, QuantizedRow out) {
  for (size_t g = 0; g < k / kGroupColumns; ++g) {
    quantize_group(x + g * kGroupColumns, out.values + g * kGroupColumns, out.scales + g, out.scaled_sums + g,
                   out.sums + 2 * g);
  }
}

}  // namespace
}  // namespace folio::infer::kernels
