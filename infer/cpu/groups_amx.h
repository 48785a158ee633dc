// matmul_groups with AMX, sixteen inputs at a time. One tdpbssd multiplies inputs (16, group) by weights (group / 4, 16
// rows, 4) into 32-bit sums (16 inputs, 16 rows). Quants are widened to bytes in the order of a GroupMatrix. A tile
// register can hold 64 columns but is loaded with only one group, because each group's sums must be scaled in vector
// registers before they are added to the total, as in the reference. Included after groups_body.h.
#pragma once

#include <atomic>
#include <vector>

#include "infer/cpu/amx_shapes.h"
#include "infer/cpu/groups_body.h"

namespace folio::infer::kernels {
namespace {

constexpr size_t kAmxInputs = 16;

// A tile of sixteen weight rows with quants widened to bytes and scales to floats, once for all inputs.
struct WideTile {
  struct alignas(64) Line {
    uint8_t bytes[64];
  };

  std::vector<Line> quants;   // (k / 4): each has four columns of sixteen rows, with the zero point subtracted
  std::vector<Vec> scales;    // (k / group): one row per lane
  std::vector<Vec> minimums;  // (k / 32), or empty if weights have no minimums
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
  // Without a fence, the compiler may move the stores past the tile loads, which it does not treat as reads of memory.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Computes dots (16 inputs, 16 rows) of one group. Callers alternate kSet, the set of tile registers, so that two
// products overlap. It is a template parameter because the intrinsics require literal register numbers.
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

// Cache lines to prefetch in small portions while a tile is multiplied: the next tile's weights, and the outputs of the
// sixteen inputs. If all were prefetched together, they would occupy the line fill buffers that the inputs need.
struct LinesAhead {
  const uint8_t* line;
  const uint8_t* end;
  size_t lines_at_once;
  float* output;
  size_t stride;
  size_t outputs;  // number of inputs whose outputs are still to be prefetched
  size_t outputs_at_once;

  void fetch() {
    const uint8_t* until = std::min(end, line + lines_at_once * 64);
    for (; line < until; line += 64) prefetch_line<Prefetch::L2>(line);
    for (size_t i = std::min(outputs, outputs_at_once); i > 0; --i, --outputs, output += stride)
      prefetch_to_write(output);
  }
};

// Computes total[t], the product of the tile and input first + t, for t < 16. Multiplies two groups of quants while
// the sums of the previous two groups are scaled.
template <typename Kind>
[[gnu::noinline]] void amx_inputs(const WideTile& weights, size_t k, const QuantizedInputs& x, size_t first,
                                  LinesAhead& ahead, Vec* total) {
  constexpr size_t kParts = BlockScales<Kind>::kParts;
  constexpr size_t kPartLines = Kind::kGroup / 4;
  constexpr size_t kInputBytes = kAmxInputs * kGroupColumns;  // 32 columns of sixteen inputs
  constexpr size_t kDots = kAmxInputs * kTileRows;
  const size_t parts = k / Kind::kGroup;
  const int8_t* inputs = x.values + first * k;
  const float* input_scales = x.scales + first * (k / kGroupColumns);
  const float* scaled_sums = x.scaled_sums + first * (k / kGroupColumns);
  const WideTile::Line* quants = weights.quants.data();
  alignas(64) int32_t dots[2][2 * kDots];
  // Multiplies the next two groups of quants; n is the number of groups left, so only one is multiplied if n is 1.
  const auto multiply = [&](size_t n, int32_t* to) {
    constexpr size_t kToSecond = kParts == 2 ? Kind::kGroup : kInputBytes;
    if (n > 0) multiply_tiles<0>(inputs, quants, to);
    if (n > 1) multiply_tiles<1>(inputs + kToSecond, quants + kPartLines, to + kDots);
    inputs += 2 * kInputBytes / kParts;
    quants += 2 * kPartLines;
  };
  int32_t* now = dots[0];
  int32_t* next = dots[1];
  multiply(parts, now);
  Vec sum[kAmxInputs];
#pragma GCC unroll 16
  for (size_t t = 0; t < kAmxInputs; ++t) sum[t] = Vec::zero();
  for (size_t begin = 0; begin < parts; begin += 2) {
    multiply(parts - std::min(parts, begin + 2), next);
#pragma GCC unroll 2
    for (size_t i = 0; i < 2; ++i) {
      const size_t part = begin + i;
      if (part == parts) break;
      const Vec scale = weights.scales[part];
#pragma GCC unroll 16
      for (size_t t = 0; t < kAmxInputs; ++t) {
        const Vec dot = Ints{_mm512_load_si512(now + i * kDots + t * kTileRows)}.to_floats();
        sum[t] = Vec::fma(dot, scale * Vec::all(input_scales[t]), sum[t]);
      }
      if (kParts == 1 || i == 1) input_scales += kAmxInputs;
      if constexpr (Kind::kMinimums) {
        const Vec minimum = weights.minimums[part];
#pragma GCC unroll 16
        for (size_t t = 0; t < kAmxInputs; ++t) sum[t] = Vec::fma(minimum, Vec::all(scaled_sums[t]), sum[t]);
        scaled_sums += kAmxInputs;
      }
    }
    std::swap(now, next);
    ahead.fetch();
  }
#pragma GCC unroll 16
  for (size_t t = 0; t < kAmxInputs; ++t) total[t] = sum[t];
}

// Quantizes n inputs for matmul_groups_amx, sixteen at a time in the layout that AMX loads: (16 inputs, 32 columns).
// The remaining inputs are quantized for the AVX-512 VNNI kernel.
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
    // Spreads prefetches of the next tile's lines and of the sixteen outputs evenly over the steps. A step multiplies
    // two groups.
    const size_t steps = weight.k / weight.group / 2 + 1;
    const size_t lines_at_once = weight.tile_bytes() / 64 / (whole / kAmxInputs * steps) + 1;
    with_kind(weight, [&](auto kind) {
      for (size_t row = row_begin; row < row_end; row = (row / kTileRows + 1) * kTileRows) {
        widen<decltype(kind)>(weight, weight.tile(row / kTileRows), wide);
        const uint8_t* next = weight.tile(row / kTileRows + 1);
        LinesAhead ahead{.line = next,
                         .end = next + weight.tile_bytes(),
                         .lines_at_once = lines_at_once,
                         .output = nullptr,
                         .stride = out_stride,
                         .outputs = 0,
                         .outputs_at_once = kAmxInputs / steps + 1};
        for (size_t n = 0; n < whole; n += kAmxInputs) {
          ahead.output = out + n * out_stride + row;
          ahead.outputs = kAmxInputs;
          Vec total[kAmxInputs];
          amx_inputs<decltype(kind)>(wide, weight.k, x, n, ahead, total);
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
