// Keys and values in the KV cache's types: rounded to F16, or quantized to 8 bits.
#pragma once

#include <algorithm>
#include <bit>

#include "infer/cpu/vec_math.h"

namespace folio::infer::kernels {
namespace {

void to_f16(const float* x, size_t n, F16* out) {
  for_lanes(n, [&](size_t i, size_t count) { Vec::load_first(x + i, count).store_first(out + i, count); });
}

// Quantizes one group of 32 elements. Loops have a fixed length, so the compiler vectorizes them.
inline void to_q8_group(const float* x, Q8* quants, F16* scale) {
  uint32_t largest = 0;
  for (size_t i = 0; i < kQ8Group; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
  Vec::all(std::bit_cast<float>(largest) / 127.0F).store_first(scale, 1);
  float widened;
  Vec::load_first(scale, 1).store_first(&widened, 1);
  const uint32_t bits = std::bit_cast<uint32_t>(widened);
  const bool none = bits == 0 || bits >= std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity());
  const float inverse = none ? 0.0F : 1.0F / widened;
  float rounded[kQ8Group];
  for (size_t i = 0; i < kQ8Group; i += kLanes) {
    const Vec near = none ? Vec::zero() : Vec::round(Vec::load(x + i) * Vec::all(inverse));
    Vec::max(Vec::min(near, Vec::all(127.0F)), Vec::all(-127.0F)).store(rounded + i);
  }
  for (size_t i = 0; i < kQ8Group; ++i) quants[i].quant = static_cast<int8_t>(static_cast<int32_t>(rounded[i]));
}

void to_q8(const float* x, size_t n, Q8* quants, F16* scales) {
  size_t i = 0;
  for (; i + kQ8Group <= n; i += kQ8Group) to_q8_group(x + i, quants + i, scales + i / kQ8Group);
  if (i == n) return;
  float rest[kQ8Group] = {};
  Q8 rest_quants[kQ8Group];
  std::copy_n(x + i, n - i, rest);
  to_q8_group(rest, rest_quants, scales + i / kQ8Group);
  std::copy_n(rest_quants, n - i, quants + i);
}

}  // namespace
}  // namespace folio::infer::kernels
