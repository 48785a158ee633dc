// Packs one row of inputs, by all threads of a block: what pack_inputs does, and what norm and SwiGLU do at once with
// their own work.
#pragma once

#include "infer/cuda/block.h"
#include "infer/cuda/layout.h"

namespace folio::infer::gpu {

__device__ inline uint32_t magnitude(float x) { return bits_of(x) & 0x7FFFFFFFU; }  // keeps the order; NaN is largest
__device__ inline uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
inline constexpr uint32_t kInfinity = 0x7F800000U;

/// The power of two that brings magnitudes up to `largest` (bits) below 2^15, and at least to 2^14 unless they are
/// tiny. 1 for zeros, and for what is not finite, so that it stays visible.
__device__ inline float f16_scale(uint32_t largest) {
  if (largest == 0 || largest >= kInfinity) return 1.0F;
  const int exponent = 14 - (static_cast<int>(largest >> 23U) - 127);
  return float_of(static_cast<uint32_t>((exponent < 100 ? exponent : 100) + 127) << 23U);
}

/// A quant, and with lane 0 of each group its scale and scaled sum: reference/quantize_body.h, a lane for each number.
__device__ inline void pack_group(const PackedInputs& to, uint8_t* tile, size_t row, size_t column, float x) {
  constexpr float kLeast = 1e-30F;  // above it, 127 / m is finite
  const uint32_t largest = warp_max(magnitude(x));
  const float m = float_of(largest);
  const bool zero = !(m >= kLeast) || largest >= kInfinity;
  const float inverse = zero ? 0.0F : 127.0F / m;
  const int value = zero ? 0 : static_cast<int>(round_to_whole(x * inverse));
  const int sum = warp_sum(value);
  uint8_t* block = tile + column / kBlockK * to.block_bytes();
  const size_t c = column % kBlockK;
  *reinterpret_cast<int8_t*>(block + to.number_offset(row, c)) = static_cast<int8_t>(value);
  if (threadIdx.x % kWarp != 0) return;
  const float scale = m < kLeast ? 0.0F : m / 127.0F;
  *reinterpret_cast<float*>(block + to.scale_offset(row, c / kGroup)) = scale;
  *reinterpret_cast<float*>(block + to.sum_offset(row, c / kGroup)) = scale * static_cast<float>(sum);
}

/// Packs row `row`; value(i) gives its numbers for i < k, and is called once or twice for each, by any thread.
template <Kind kKind, typename Value>
__device__ void pack_row(PackedInputs to, size_t row, Value value) {
  to.kind = kKind;  // a constant from here on: places are shifts, not divisions
  uint8_t* tile = to.data + row / kTileColumns * to.tile_bytes();
  const size_t r = row % kTileColumns;
  const size_t padded = to.k_blocks() * kBlockK;
  if constexpr (kKind == Kind::Groups) {
    for (size_t i = threadIdx.x; i < padded; i += kBlockThreads) pack_group(to, tile, r, i, i < to.k ? value(i) : 0.0F);
    return;
  }
  [[maybe_unused]] float scale = 1.0F;
  if constexpr (kKind == Kind::F16) {
    uint32_t largest = 0;
    for (size_t i = threadIdx.x; i < to.k; i += kBlockThreads) largest = larger(largest, magnitude(value(i)));
    scale = f16_scale(block_max(largest));
    if (threadIdx.x == 0) to.row_scales[row] = 1.0F / scale;
  }
  for (size_t i = threadIdx.x; i < padded; i += kBlockThreads) {
    uint8_t* number = tile + i / kBlockK * to.block_bytes() + to.number_offset(r, i % kBlockK);
    const float x = i < to.k ? value(i) : 0.0F;
    if constexpr (kKind == Kind::F32) *reinterpret_cast<float*>(number) = x;
    if constexpr (kKind == Kind::F16) *reinterpret_cast<uint16_t*>(number) = to_f16(x * scale);
    if constexpr (kKind == Kind::BF16) *reinterpret_cast<uint16_t*>(number) = to_bf16(x);
  }
}

/// Calls f with the kind as a constant.
template <typename F>
void with_kind(Kind kind, F f) {
  switch (kind) {
    case Kind::F32:
      return f.template operator()<Kind::F32>();
    case Kind::F16:
      return f.template operator()<Kind::F16>();
    case Kind::BF16:
      return f.template operator()<Kind::BF16>();
    case Kind::Groups:
      return f.template operator()<Kind::Groups>();
  }
}

}  // namespace folio::infer::gpu
