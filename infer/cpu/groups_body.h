// Products with weights in groups, written once for a Vec of sixteen floats, sixteen Ints and sixty-four Bytes. See
// reference/groups.h for the layout: a lane is a weight row, so no lanes are joined. Included after an instruction
// set's vec_*.h and ints_*.h.
#pragma once

#include <algorithm>

#include "infer/reference/kernels.h"
#include "infer/reference/quantize_body.h"

namespace folio::infer::kernels {
namespace {

// total[t]: one tile of sixteen rows times input first + t, for kTokens inputs.
template <bool kNibbles, size_t kGroup, bool kMinimums, typename Scale, size_t kTokens>
inline void groups_tile(const GroupMatrix& m, const uint8_t* tile, const QuantizedRows& x, size_t first, Vec* total) {
  constexpr size_t kParts = kGroupColumns / kGroup;  // groups of a row in each group of an input
  constexpr size_t kQuantBytes = kTileRows * kGroupColumns / (kNibbles ? 2 : 1);
  const size_t groups = m.k / kGroupColumns;
  const auto* scales = reinterpret_cast<const Scale*>(tile + m.quant_bytes());
  const auto* minimums = reinterpret_cast<const Scale*>(tile + m.quant_bytes() + m.scale_bytes());
  Vec sum[kTokens];
  for (Vec& s : sum) s = Vec::zero();
  for (size_t g = 0; g < groups; ++g, tile += kQuantBytes) {
    const int8_t* values[kTokens];
    Ints dot[kParts][kTokens];
    for (size_t t = 0; t < kTokens; ++t) {
      values[t] = x.values + (first + t) * m.k + g * kGroupColumns;
      const int32_t* halves = x.sums + ((first + t) * groups + g) * 2;
      for (size_t p = 0; p < kParts; ++p) {
        dot[p][t] = Ints::all(kMinimums ? 0 : -m.zero_point * (kParts == 2 ? halves[p] : halves[0] + halves[1]));
      }
    }
    for (size_t i = 0; i < kQuantBytes / 64; ++i) {
      __builtin_prefetch(tile + 64 * i + m.tile_bytes());  // the next tile: see add_chunk
      const Bytes w = Bytes::load(tile + 64 * i);
      if constexpr (kNibbles) {
        const Bytes low = w.low_nibbles();
        const Bytes high = w.high_nibbles();
        for (size_t t = 0; t < kTokens; ++t) {
          dot[0][t] = dot[0][t].template add_dot<true>(low, values[t] + 4 * i);
          dot[0][t] = dot[0][t].template add_dot<true>(high, values[t] + 16 + 4 * i);
        }
      } else {
        Ints(&part)[kTokens] = dot[i * 4 / kGroup];
        for (size_t t = 0; t < kTokens; ++t) part[t] = part[t].template add_dot<false>(w, values[t] + 4 * i);
      }
    }
    for (size_t p = 0; p < kParts; ++p) {
      const Vec scale = Vec::load(scales + (g * kParts + p) * kTileRows);
      for (size_t t = 0; t < kTokens; ++t) {
        const Vec by = scale * Vec::all(x.scales[(first + t) * groups + g]);
        sum[t] = Vec::fma(dot[p][t].to_floats(), by, sum[t]);
      }
    }
    if constexpr (kMinimums) {
      const Vec minimum = Vec::load(minimums + g * kTileRows);
      for (size_t t = 0; t < kTokens; ++t) {
        sum[t] = Vec::fma(minimum, Vec::all(x.scaled_sums[(first + t) * groups + g]), sum[t]);
      }
    }
  }
  std::copy_n(sum, kTokens, total);
}

using TileKernel = void (*)(const GroupMatrix& m, const uint8_t* tile, const QuantizedRows& x, size_t first,
                            Vec* total);

template <size_t kTokens>
TileKernel tile_kernel(const GroupMatrix& m) {
  if (m.group == 16) return groups_tile<false, 16, false, float, kTokens>;
  if (m.half) {
    if (m.minimums)
      return m.nibbles ? groups_tile<true, 32, true, F16, kTokens> : groups_tile<false, 32, true, F16, kTokens>;
    return m.nibbles ? groups_tile<true, 32, false, F16, kTokens> : groups_tile<false, 32, false, F16, kTokens>;
  }
  return m.nibbles ? groups_tile<true, 32, true, float, kTokens> : groups_tile<false, 32, true, float, kTokens>;
}

void matmul_groups(const QuantizedRows& x, size_t n_rows, const GroupMatrix& weight, size_t row_begin, size_t row_end,
                   float* out, size_t out_stride, bool accumulate) {
  const TileKernel eight = tile_kernel<std::min<size_t>(8, Ints::kMostTokens)>(weight);
  const TileKernel four = tile_kernel<std::min<size_t>(4, Ints::kMostTokens)>(weight);
  const TileKernel two = tile_kernel<2>(weight);
  const TileKernel one = tile_kernel<1>(weight);
  for (size_t row = row_begin; row < row_end; row = (row / kTileRows + 1) * kTileRows) {
    const uint8_t* tile = weight.tile(row / kTileRows);
    const size_t end = std::min(row_end, (row / kTileRows + 1) * kTileRows);
    size_t tokens = 0;
    for (size_t n = 0; n < n_rows; n += tokens) {
      const size_t left = std::min(n_rows - n, Ints::kMostTokens);
      tokens = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
      Vec total[Ints::kMostTokens];
      (tokens == 8 ? eight : tokens == 4 ? four : tokens == 2 ? two : one)(weight, tile, x, n, total);
      for (size_t t = 0; t < tokens; ++t) {
        float y[kTileRows];
        total[t].store(y);
        float* to = out + (n + t) * out_stride;
        for (size_t r = row; r < end; ++r) to[r] = accumulate ? to[r] + y[r % kTileRows] : y[r % kTileRows];
      }
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
