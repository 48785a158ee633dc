// Quantizes inputs to 8 bits for groups_body.h: see Kernels::quantize. Included after an instruction set's vec_*.h and
// ints_*.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

// Returns how many of n inputs are multiplied together: the largest power of two up to n and kMostInputs.
inline size_t inputs_together(size_t n) { return std::bit_floor(std::min(n, kMostInputs)); }

// Destinations of one quantized group of an input.
struct QuantizedGroup {
  int8_t* values;
  float* scale;
  float* scaled_sum;
  int32_t* sums;
};

// Interleaving of inputs that are multiplied together.
struct Layout {
  size_t inputs;  ///< number of interleaved inputs, and thus the stride of an input's scales and sums
  size_t fours;   ///< stride, in values, from four columns of an input to its next four columns
};

// Quantizes the 32 elements of a group. Stores the quants and scale, and the quants as floats in halves[0] and [1].
inline void quantize_group(const float* x, const QuantizedGroup& to, size_t fours, Vec* halves) {
  uint32_t largest = 0;  // bits of |x|, which have the same order as |x|; NaN is largest
  for (size_t i = 0; i < kGroupColumns; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
  const auto m = std::bit_cast<float>(largest);
  constexpr float kLeast = 1e-30F;  // 127 / m is finite for m >= kLeast
  const bool zero = !(m >= kLeast) || !std::isfinite(m);
  const Vec inverse = Vec::all(zero ? 0.0F : 127.0F / m);
  float rounded[kGroupColumns];
  for (size_t h = 0; h < 2; ++h) {
    halves[h] = zero ? Vec::zero() : Vec::round(Vec::load(x + h * kLanes) * inverse);
    halves[h].store(rounded + h * kLanes);
  }
  int8_t values[kGroupColumns];
  for (size_t i = 0; i < kGroupColumns; ++i) values[i] = static_cast<int8_t>(static_cast<int32_t>(rounded[i]));
  for (size_t i = 0; i < kGroupColumns / 4; ++i) std::memcpy(to.values + i * fours, values + 4 * i, 4);
  *to.scale = m < kLeast ? 0.0F : m / 127.0F;
}

// Quantizes one input (k). `to` addresses its first group.
inline void quantize_one(const float* x, size_t k, QuantizedGroup to, Layout layout) {
  const size_t stride = layout.inputs;
  constexpr size_t kGroups = kLanes / 2;  // groups per join_lanes(); integer sums are exact in any order
  for (size_t column = 0; column < k; column += kGroups * kGroupColumns) {
    const size_t n = std::min(kGroups, (k - column) / kGroupColumns);
    Vec halves[kLanes];
    for (Vec& h : halves) h = Vec::zero();
    QuantizedGroup group = to;
    for (size_t g = 0; g < n; ++g) {
      quantize_group(x + column + g * kGroupColumns, group, layout.fours, halves + 2 * g);
      group.values += kGroupColumns * stride;
      group.scale += stride;
    }
    float sums[kLanes];
    Vec::join_lanes(halves).store(sums);
    for (size_t g = 0; g < n; ++g) {
      const float both = sums[2 * g] + sums[2 * g + 1];
      *to.scaled_sum = *to.scale * both;
      to.sums[0] = static_cast<int32_t>(-both);
      to.sums[stride] = static_cast<int32_t>(-sums[2 * g]);
      to.sums[2 * stride] = static_cast<int32_t>(-sums[2 * g + 1]);
      to = {to.values + kGroupColumns * stride, to.scale + stride, to.scaled_sum + stride, to.sums + 3 * stride};
    }
  }
}

// Quantizes n inputs and interleaves those that are multiplied together, so that they are read sequentially: for each
// group of 32 columns, four columns of each input, then the next four, …. Scales and sums are interleaved, too.
inline void quantize(const float* x, size_t n, size_t k, const QuantizedInputs& out) {
  const size_t groups = k / kGroupColumns;
  for (size_t first = 0, inputs = 0; first < n; first += inputs) {
    inputs = inputs_together(n - first);
    for (size_t t = 0; t < inputs; ++t) {
      quantize_one(x + (first + t) * k, k,
                   {.values = out.values + first * k + 4 * t,
                    .scale = out.scales + first * groups + t,
                    .scaled_sum = out.scaled_sums + first * groups + t,
                    .sums = out.sums + first * groups * 3 + t},
                   {.inputs = inputs, .fours = 4 * inputs});
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
