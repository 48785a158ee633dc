// Products of sixteen inputs at a time with weights in groups, by AMX: one instruction multiplies two tiles of bytes,
//
//     inputs (16, group)  x  weights (group / 4, 16 rows, 4)  ->  sums (16 inputs, 16 rows) of 32 bits
//
// where a tile of weights is a group of a GroupMatrix' tile as it lies there, its quants widened to bytes. A register
// holds 64 columns, but the sums of a group are scaled before the next one's are added, so that the bits are the
// reference's. Included after groups_body.h.
#pragma once

#include <atomic>
#include <vector>

#include "infer/cpu/amx_shapes.h"
#include "infer/cpu/groups_body.h"

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

// total[t]: the tile times input first + t, for sixteen inputs.
template <typename Kind>
void amx_inputs(const WideTile& weights, size_t k, const QuantizedInputs& x, size_t first, Vec* total) {
  constexpr size_t kParts = BlockScales<Kind>::kParts;
  const size_t groups = k / kGroupColumns;
  alignas(64) int32_t dots[kAmxInputs][kTileRows];
  Vec sum[kAmxInputs];
  for (Vec& s : sum) s = Vec::zero();
  for (size_t g = 0; g < groups; ++g) {
    for (size_t part = g * kParts; part < (g + 1) * kParts; ++part) {
      _tile_zero(0);
      _tile_loadd(1, x.values + first * k + part * Kind::kGroup, k);
      _tile_loadd(2, weights.quants[part * Kind::kGroup / 4].bytes, 64);
      _tile_dpbssd(0, 1, 2);
      _tile_stored(0, dots, 64);
      for_constants<kAmxInputs>([&](auto t) {
        const Vec dot = Ints{_mm512_load_si512(dots[t])}.to_floats();
        sum[t] = Vec::fma(dot, weights.scales[part] * Vec::all(x.scales[(first + t) * groups + g]), sum[t]);
      });
    }
    if constexpr (Kind::kMinimums) {
      for_constants<kAmxInputs>([&](auto t) {
        sum[t] = Vec::fma(weights.minimums[g], Vec::all(x.scaled_sums[(first + t) * groups + g]), sum[t]);
      });
    }
  }
  std::copy_n(sum, kAmxInputs, total);
}

// Sixteen inputs lie one after the other, as AMX loads them. Fewer take the kernel of AVX-512 with VNNI.
void quantize_amx(const float* x, size_t n, size_t k, const QuantizedInputs& out) {
  if (n < kAmxInputs) return quantize(x, n, k, out);
  const size_t groups = k / kGroupColumns;
  for (size_t i = 0; i < n; ++i) {
    quantize_one(x + i * k, k,
                 {out.values + i * k, out.scales + i * groups, out.scaled_sums + i * groups, out.sums + i * groups * 3},
                 1);
  }
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
  const size_t groups = weight.k / kGroupColumns;
  const QuantizedInputs rest{.values = x.values + whole * weight.k,
                             .scales = x.scales + whole * groups,
                             .scaled_sums = x.scaled_sums + whole * groups,
                             .sums = x.sums + whole * groups * 3};
  avx512vnni_kernels().matmul_groups(rest, n_rows - whole, weight, row_begin, row_end, out + whole * out_stride,
                                     out_stride, accumulate);
}

}  // namespace
}  // namespace folio::infer::kernels
