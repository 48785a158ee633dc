// Products of sixteen inputs at a time with weights in groups, by AMX: one instruction multiplies two tiles of bytes,
//
//     inputs (16, group)  x  weights (group / 4, 16 rows, 4)  ->  sums (16 inputs, 16 rows) of 32 bits
//
// where a tile of weights is a group of a GroupMatrix' tile as it lies there, its quants widened to bytes, and the
// inputs' bytes of a group lie together as well. A register holds 64 columns, but the sums of a group are scaled before
// the next one's are added, so that the bits are the reference's. They go through memory, from tile registers to those
// of vectors. Included after groups_body.h.
#pragma once

#include <atomic>
#include <vector>

#include "infer/cpu/amx_shapes.h"
#include "infer/cpu/groups_body.h"
#include "infer/cpu/quantized_buffer.h"

namespace folio::infer::kernels {
namespace {

constexpr size_t kAmxInputs = 16;

// A tile of sixteen weight rows with bytes and floats: made once for all inputs.
struct WideTile {
  struct alignas(64) Line {
    uint8_t bytes[64];
  };

  std::vector<Line> quants;   // (k / 4): of sixteen rows and four columns, less the zero point
  std::vector<Vec> scales;    // (k / group)
  std::vector<Vec> minimums;  // (k / 32), or empty
};

template <typename Kind>
void widen(const GroupMatrix& m, const uint8_t* tile, WideTile& to) {
  constexpr size_t kParts = BlockScales<Kind>::kParts;
  const size_t groups = m.k / kGroupColumns;
  const __m512i zero_point = _mm512_set1_epi8(static_cast<char>(m.zero_point));
  to.quants.resize(m.k / 4);
  to.scales.resize(groups * kParts);
  to.minimums.resize(Kind::kMinimums ? groups : 0);
  for_groups<Kind>(m, tile, [&](size_t group, const uint8_t* quants, const BlockScales<Kind>& scales, size_t g) {
    for_quants<Kind>(quants, [&](auto i, Bytes four) {
      _mm512_store_si512(to.quants[group * 8 + i].bytes, _mm512_sub_epi8(four.v, zero_point));
    });
    for (size_t p = 0; p < kParts; ++p) to.scales[group * kParts + p] = scales.scale(g, p);
    if constexpr (Kind::kMinimums) to.minimums[group] = scales.minimum(g);
  });
  std::atomic_signal_fence(std::memory_order_seq_cst);  // to the compiler, loading a tile register reads no memory
}

// dots (16 inputs, 16 rows): the products of a group. Two sets of registers are used by turns, so that none waits for
// the sums of the one before. The intrinsics take a register's number as a literal alone.
template <size_t kSet>
inline void multiply_tiles(const int8_t* inputs, const WideTile::Line* quants, int32_t* dots) {
  if constexpr (kSet == 0) {
    _tile_zero(0);
    _tile_loadd(1, inputs, kGroupColumns);
    _tile_loadd(2, quants, 64);
    _tile_dpbssd(0, 1, 2);
    _tile_stored(0, dots, 64);
  } else {
    _tile_zero(3);
    _tile_loadd(4, inputs, kGroupColumns);
    _tile_loadd(5, quants, 64);
    _tile_dpbssd(3, 4, 5);
    _tile_stored(3, dots, 64);
  }
}

// total[t]: the tile times input first + t, for sixteen inputs.
template <typename Kind>
void amx_inputs(const WideTile& weights, size_t k, const QuantizedInputs& x, size_t first, Vec* total) {
  constexpr size_t kParts = BlockScales<Kind>::kParts;
  constexpr size_t kSets = 2;
  const size_t groups = k / kGroupColumns;
  const int8_t* values = x.values + first * k;
  const float* input_scales = x.scales + first * groups;
  const float* scaled_sums = x.scaled_sums + first * groups;
  alignas(64) int32_t dots[kSets][kAmxInputs][kTileRows];
  const auto inputs_of = [&](size_t part) {
    return values + part / kParts * kAmxInputs * kGroupColumns + part % kParts * Kind::kGroup;
  };
  const auto quants_of = [&](size_t part) { return &weights.quants[part * Kind::kGroup / 4]; };
  Vec sum[kAmxInputs];
#pragma GCC unroll 16
  for (size_t t = 0; t < kAmxInputs; ++t) sum[t] = Vec::zero();
  const size_t parts = groups * kParts;
  for (size_t first_part = 0; first_part < parts; first_part += kSets) {
    const size_t n = std::min(kSets, parts - first_part);
    multiply_tiles<0>(inputs_of(first_part), quants_of(first_part), dots[0][0]);
    if (n == kSets) multiply_tiles<1>(inputs_of(first_part + 1), quants_of(first_part + 1), dots[1][0]);
    for (size_t i = 0; i < n; ++i) {
      const size_t part = first_part + i;
      const float* scales_of_inputs = input_scales + part / kParts * kAmxInputs;
      const Vec scale = weights.scales[part];
#pragma GCC unroll 16
      for (size_t t = 0; t < kAmxInputs; ++t) {
        const Vec dot = Ints{_mm512_load_si512(dots[i][t])}.to_floats();
        sum[t] = Vec::fma(dot, scale * Vec::all(scales_of_inputs[t]), sum[t]);
      }
      if constexpr (Kind::kMinimums) {
        const Vec minimum = weights.minimums[part];
        const float* sums_of_inputs = scaled_sums + part * kAmxInputs;
#pragma GCC unroll 16
        for (size_t t = 0; t < kAmxInputs; ++t) sum[t] = Vec::fma(minimum, Vec::all(sums_of_inputs[t]), sum[t]);
      }
    }
  }
#pragma GCC unroll 16
  for (size_t t = 0; t < kAmxInputs; ++t) total[t] = sum[t];
}

// Of sixteen inputs a group lies as AMX loads it, one input after the other. Fewer take the kernel of AVX-512 with
// VNNI.
void quantize_amx(const float* x, size_t n, size_t k, const QuantizedInputs& out) {
  const size_t whole = n / kAmxInputs * kAmxInputs;
  for (size_t i = 0; i < whole; ++i) {
    const size_t t = i % kAmxInputs;
    const QuantizedInputs sixteen = from(out, i - t, k);
    quantize_one(x + i * k, k,
                 {.values = sixteen.values + t * kGroupColumns,
                  .scale = sixteen.scales + t,
                  .scaled_sum = sixteen.scaled_sums + t,
                  .sums = sixteen.sums + t},
                 {.inputs = kAmxInputs, .fours = 4});
  }
  quantize(x + whole * k, n - whole, k, from(out, whole, k));
}

void matmul_groups_amx(const QuantizedInputs& x, size_t n_rows, const GroupMatrix& weight, size_t row_begin,
                       size_t row_end, float* out, size_t out_stride, bool accumulate) {
  const size_t whole = n_rows / kAmxInputs * kAmxInputs;
  if (whole > 0) {
    const TileShapes shapes(weight.group, 1);
    WideTile wide;
    with_kind(weight, [&](auto kind) {
      for (size_t row = row_begin; row < row_end; row = (row / kTileRows + 1) * kTileRows) {
        widen<decltype(kind)>(weight, weight.tile(row / kTileRows), wide);
        for (size_t n = 0; n < whole; n += kAmxInputs) {
          Vec total[kAmxInputs];
          amx_inputs<decltype(kind)>(wide, weight.k, x, n, total);
          put_tile(total, kAmxInputs, row, row_end, out + n * out_stride, out_stride, accumulate);
        }
      }
    });
  }
  if (n_rows == whole) return;
  avx512vnni_kernels().matmul_groups(from(x, whole, weight.k), n_rows - whole, weight, row_begin, row_end,
                                     out + whole * out_stride, out_stride, accumulate);
}

}  // namespace
}  // namespace folio::infer::kernels
