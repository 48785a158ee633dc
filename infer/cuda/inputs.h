// Packs rows of inputs, for pack_inputs and for the kernels that pack the results of a norm or activation.
#pragma once

#include "infer/cuda/block.h"
#include "infer/cuda/layout.h"

namespace folio::infer::gpu {

__device__ inline uint32_t magnitude(float x) { return bits_of(x) & 0x7FFFFFFFU; }  // ordered as |x|; NaN is largest
inline constexpr uint32_t kInfinity = 0x7F800000U;

/// Returns the power of two that scales a row's maximum magnitude `largest` (as bits) to [2^14, 2^15), or 2^100 if that
/// is smaller. Returns 1 if `largest` is 0, infinity or NaN.
__device__ inline float f16_scale(uint32_t largest) {
  if (largest == 0 || largest >= kInfinity) return 1.0F;
  const int exponent = 14 - (static_cast<int>(largest >> 23U) - 127);
  return float_of(static_cast<uint32_t>((exponent < 100 ? exponent : 100) + 127) << 23U);
}

/// Factors that quantize 32 inputs to 8 bits: quant = round(x * inverse), x ≈ quant * scale. See Kernels::quantize.
struct GroupScale {
  float inverse;  ///< factor from values to quants; 0: all quants are 0
  float scale;
};
__device__ inline GroupScale group_scale(uint32_t largest) {
  constexpr float kLeast = 1e-30F;  // 127 / m is finite for m >= kLeast
  const float m = float_of(largest);
  const bool zero = !(m >= kLeast) || largest >= kInfinity;
  return {zero ? 0.0F : 127.0F / m, m < kLeast ? 0.0F : m / 127.0F};
}
__device__ inline int quant_of(float x, const GroupScale& g) {
  return g.inverse == 0.0F ? 0 : static_cast<int>(round_to_whole(x * g.inverse));
}

/// Stores an element of a row, already scaled or quantized.
template <Kind kKind, typename Number>
__device__ void put_number(uint8_t* to, Number x) {
  if constexpr (kKind == Kind::F32) *reinterpret_cast<float*>(to) = x;
  if constexpr (kKind == Kind::F16) *reinterpret_cast<uint16_t*>(to) = to_f16(x);
  if constexpr (kKind == Kind::BF16) *reinterpret_cast<uint16_t*>(to) = to_bf16(x);
  if constexpr (kKind == Kind::Groups) *reinterpret_cast<int8_t*>(to) = static_cast<int8_t>(x);
}
/// Stores a group's scale, and scale * sum, where `sum` is the sum of the group's quants.
__device__ inline void put_group(const PackedInputs& to, uint8_t* block, size_t row, size_t group, float scale,
                                 int sum) {
  *reinterpret_cast<float*>(block + to.scale_offset(row, group)) = scale;
  *reinterpret_cast<float*>(block + to.sum_offset(row, group)) = scale * static_cast<float>(sum);
}

/// Packs a group of 32 elements. Called by a whole warp: each lane passes one element, x, and its column.
__device__ inline void pack_group(const PackedInputs& to, uint8_t* tile, size_t row, size_t column, float x) {
  const GroupScale g = group_scale(warp_join(magnitude(x), larger));
  const int value = quant_of(x, g);
  const int sum = warp_sum(value);
  uint8_t* block = tile + column / kBlockK * to.block_bytes();
  const size_t c = column % kBlockK;
  put_number<Kind::Groups>(block + to.number_offset(row, c), value);
  if (threadIdx.x % kWarp == 0) put_group(to, block, row, c / kGroup, g.scale, sum);
}

/// Writes x, element i of row `row` after scaling, to `tile`. For Kind::Groups, all lanes of a warp must call this
/// together, with the elements of one group.
template <Kind kKind>
__device__ void pack_number(const PackedInputs& to, uint8_t* tile, size_t row, size_t i, float x) {
  if constexpr (kKind == Kind::Groups) {
    pack_group(to, tile, row, i, x);
  } else {
    put_number<kKind>(tile + i / kBlockK * to.block_bytes() + to.number_offset(row, i % kBlockK), x);
  }
}

/// Packs row `row` with kRowThreads threads: the elements in `held`, then value(i) up to to.k, then zeros as padding.
template <Kind kKind, int kCount, typename Value>
__device__ void pack_row(PackedInputs to, size_t row, const HeldRow<kCount>& held, Value value) {
  to.kind = kKind;  // a compile-time constant, so that offsets need shifts, not divisions
  uint8_t* tile = to.data + row / kTileColumns * to.tile_bytes();
  const size_t padded = to.k_blocks() * kBlockK;
  const auto padded_value = [&](size_t i) { return i < to.k ? value(i) : 0.0F; };
  float scale = 1.0F;
  if constexpr (kKind == Kind::F16) {
    uint32_t largest = 0;
    visit(held, to.k, value, [&](size_t, float x) { largest = larger(largest, magnitude(x)); });
    scale = f16_scale(block_join(largest, larger));
    if (threadIdx.x == 0) to.row_scales[row] = 1.0F / scale;
  }
  visit(held, padded, padded_value, [&](size_t i, float x) {
    pack_number<kKind>(to, tile, row % kTileColumns, i, kKind == Kind::F16 ? x * scale : x);
  });
}

/// True for the kind whose rows are packed by one block each: F16, scaled by the row's maximum. In the other kinds,
/// elements or groups are independent, so a long row is divided among several blocks.
template <Kind kKind>
inline constexpr bool kByRows = kKind == Kind::F16;
template <Kind kKind>
inline constexpr unsigned kPackThreads = kByRows<kKind> ? kRowThreads : kBlockThreads;
template <Kind kKind>
[[nodiscard]] Grid pack_grid(const PackedInputs& to) {
  const size_t parts = kByRows<kKind> ? 1 : ceil_div(to.k_blocks() * kBlockK, kPackThreads<kKind>);
  return {to.n_rows, static_cast<unsigned>(parts)};
}

/// Packs the part of row `row` that belongs to block blockIdx.y of pack_grid(). value(i) returns element i < k, and is
/// called once or twice for each.
template <Kind kKind, typename Value>
__device__ void pack_part(PackedInputs to, size_t row, Value value) {
  if constexpr (kByRows<kKind>) {
    HeldRow<8> held;
    hold(held, to.k, value);
    pack_row<kKind>(to, row, held, value);
  } else {
    to.kind = kKind;
    uint8_t* tile = to.data + row / kTileColumns * to.tile_bytes();
    const size_t i = static_cast<size_t>(blockIdx.y) * kPackThreads<kKind> + threadIdx.x;
    if (i < to.k_blocks() * kBlockK) {
      pack_number<kKind>(to, tile, row % kTileColumns, i, i < to.k ? value(i) : 0.0F);
    }
  }
}

/// Calls f with the kind as a template argument.
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
