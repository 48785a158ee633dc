// matmul_groups for any instruction set, written with the types Vec (16 floats), Ints (16 32-bit integers) and Bytes
// (64 bytes). Each lane computes one weight row, so lanes are never added to each other (layout: reference/groups.h).
// Included after an instruction set's vec_*.h and ints_*.h.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include "core/quants.h"
#include "infer/cpu/prefetch.h"
#include "infer/cpu/put_outputs.h"
#include "infer/cpu/quantize_body.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

// Calls body with 0, ..., n - 1 as compile-time constants.
template <size_t n, typename Body>
inline void for_constants(Body&& body) {
  [&]<size_t... i>(std::index_sequence<i...>) {
    (body(std::integral_constant<size_t, i>{}), ...);
  }(std::make_index_sequence<n>{});
}

// Storage format of group-quantized weights as compile-time constants. They correspond to the fields of GroupMatrix.
template <int bits, size_t group, bool minimums, bool byte_scales, bool fp4 = false>
struct GroupKind {
  static constexpr int kBits = bits;
  static constexpr bool kFp4 = fp4;
  static constexpr int kQuantBits = fp4 ? 5 : bits;  ///< bits of a multiplied value: FP4 quants become 5-bit integers
  static constexpr size_t kGroup = group;
  static constexpr bool kMinimums = minimums;
  static constexpr bool kByteScales = byte_scales;
};

// Calls take(i, quants) for i = 0, ..., 7: `quants` are columns 4 i to 4 i + 3 of a group's sixteen rows, as bytes.
template <typename Kind, typename Take>
inline void for_quants(const uint8_t* at, Take&& take) {
  constexpr int kBits = Kind::kBits;
  if constexpr (kBits == 8) {
    for_constants<8>([&](auto i) { take(i, Bytes::load(at + 64 * i)); });
  } else {
    // Returns the high bits (all but the low four) of the quants in columns 4 i to 4 i + 3.
    const auto above = [&](auto i) {
      const int which = static_cast<int>(i);
      if constexpr (kBits == 5) return Bytes::load(at + 256).template bits<which - 4>(0x10);
      if constexpr (kBits == 6) return Bytes::load(at + 256 + which / 4 * 64).template bits<which % 4 * 2 - 4>(0x30);
    };
    for_constants<8>([&](auto i) {
      const Bytes both = Bytes::load(at + i % 4 * 64);
      const Bytes low = i < 4 ? both.template bits<0>(0x0F) : both.template bits<4>(0x0F);
      if constexpr (Kind::kFp4) {
        take(i, low.numbers_of(core::kFp4Quants.data()));
      } else if constexpr (kBits == 4) {
        take(i, low);
      } else {
        take(i, low | above(i));
      }
    });
  }
}

// Scales and minimums of a tile's block, which has n groups of 32 columns.
template <typename Kind>
class BlockScales {
 public:
  static constexpr size_t kParts = kGroupColumns / Kind::kGroup;  // weight groups per input group of 32 columns

  BlockScales(const GroupMatrix& m, const uint8_t* block, size_t n)
      : scales_(reinterpret_cast<const Scale*>(block + m.scales_at())),
        minimums_(reinterpret_cast<const Scale*>(block + m.minimums_at(n))) {
    if constexpr (Kind::kByteScales && !Kind::kFp4) {
      const auto* factors = reinterpret_cast<const F16*>(block);
      factor_ = Vec::load(factors);
      if constexpr (Kind::kMinimums) minimum_factor_ = Vec::zero() - Vec::load(factors + kTileRows);
    }
  }

  // Returns the scales of the p-th weight group in input group g < n, one for each of sixteen rows.
  [[nodiscard]] Vec scale(size_t g, size_t p) const {
    const Vec scale = Vec::load(scales_ + (g * kParts + p) * kTileRows);
    if constexpr (Kind::kFp4) {  // 2^(scale - 128) as a product of two normal floats
      const Vec two = Vec::all(2.0F);
      return Vec::power_of_two(Vec::max(scale, two) - Vec::all(128.0F)) * Vec::power_of_two(Vec::min(scale, two) - two);
    }
    return Kind::kByteScales ? factor_ * scale : scale;
  }
  [[nodiscard]] Vec minimum(size_t g) const {
    const Vec minimum = Vec::load(minimums_ + g * kTileRows);
    return Kind::kByteScales ? minimum_factor_ * minimum : minimum;
  }

 private:
  using Byte = std::conditional_t<Kind::kMinimums || Kind::kFp4, uint8_t, int8_t>;
  using Scale = std::conditional_t<Kind::kByteScales, Byte, F16>;

  const Scale* scales_;
  const Scale* minimums_;
  Vec factor_{};
  Vec minimum_factor_{};
};

// Calls body(group, quants, scales, g) for each group of 32 columns of a tile. `group` is its index in the tile and `g`
// its index in the block; `quants` are its quants, and `scales` are the scales of its block.
template <typename Kind, typename Body>
void for_groups(const GroupMatrix& m, const uint8_t* tile, Body&& body) {
  constexpr size_t kQuantBytes = group_quant_bytes(Kind::kBits);
  const size_t groups = m.k / kGroupColumns;
  for (size_t begin = 0; begin < groups;) {
    const size_t n = std::min(groups - begin, kBlockColumns / kGroupColumns);
    const BlockScales<Kind> scales(m, tile, n);
    const uint8_t* quants = tile + m.quants_at(n);
    for (size_t g = 0; g < n; ++g, quants += kQuantBytes) {
      for (size_t i = 0; i < kQuantBytes; i += 64) prefetch_line<Prefetch::L2>(quants + kBytesAhead + i);
      body(begin + g, quants, scales, g);
    }
    begin += n;
    tile += m.block_bytes(n);
  }
}

// Prefetches an input's next block into L1, because a tile with many columns evicts the input before the next tile
// reads it.
template <typename Kind>
void prefetch_input(const int8_t* values, const float* scales, const float* scaled_sums, const int32_t* sums) {
  constexpr size_t kGroups = kBlockColumns / kGroupColumns;
  const auto numbers = [](const auto* from, size_t n) {
    for (size_t i = 0; i < n; i += 64 / sizeof *from) prefetch_line<Prefetch::L1>(from + n + i);
  };
  numbers(values, kBlockColumns);
  numbers(scales, kGroups);
  if constexpr (Kind::kMinimums) numbers(scaled_sums, kGroups);
  if constexpr (!Kind::kMinimums) numbers(sums, 3 * kGroups);
}

// Computes total[t], the product of a tile (sixteen rows) and input first + t, for t < kTokens.
template <typename Kind, size_t kTokens, Prefetch level>
void groups_tile(const GroupMatrix& m, const uint8_t* tile, const QuantizedInputs& x, size_t first, Vec* total) {
  using Sums = Dots<Kind::kQuantBits>;
  constexpr size_t kParts = BlockScales<Kind>::kParts;
  constexpr size_t kQuantBytes = group_quant_bytes(Kind::kBits);
  constexpr size_t kScaleBytes = kTileRows * (kParts + Kind::kMinimums) * (Kind::kByteScales ? 1 : sizeof(F16));
  const size_t groups = m.k / kGroupColumns;
  const int8_t* values = x.values + first * m.k;
  const float* input_scales = x.scales + first * groups;
  const float* scaled_sums = x.scaled_sums + first * groups;
  const int32_t* sums = x.sums + first * groups * 3;
  Vec sum[kTokens];
#pragma GCC unroll 16
  for (size_t t = 0; t < kTokens; ++t) sum[t] = Vec::zero();
  for (size_t begin = 0; begin < groups;) {
    const size_t n = std::min(groups - begin, kBlockColumns / kGroupColumns);
    const BlockScales<Kind> scales(m, tile, n);
    const uint8_t* quants = tile + m.quants_at(n);
    // Prefetches scales before quants, because reading in address order keeps the hardware prefetcher active.
    if constexpr (kTokens < kMostInputs) {
      for (const uint8_t* line = tile; line < quants; line += 64) prefetch_line<Prefetch::L1>(line);
    }
    if constexpr (kTokens == 1) prefetch_input<Kind>(values, input_scales, scaled_sums, sums);
    const uint8_t* ahead = tile + kBytesAhead;
    for (size_t g = begin; g < begin + n; ++g, quants += kQuantBytes, ahead += kQuantBytes + kScaleBytes) {
      for (size_t i = 0; i < kQuantBytes + kScaleBytes; i += 64) prefetch_line<level>(ahead + i);
      Sums dots[kParts][kTokens];
      if constexpr (!Kind::kMinimums && !Sums::kSubtractsZeroPoint) {
        for (size_t p = 0; p < kParts; ++p) {
          for (size_t t = 0; t < kTokens; ++t) {
            dots[p][t].start(sums + (kParts == 2 ? p + 1 : 0) * kTokens + t);
          }
        }
      }
      for_quants<Kind>(quants, [&](auto i, Bytes four) {
        const typename Sums::Weights w(four);
        for (size_t t = 0; t < kTokens; ++t) dots[i * 4 / Kind::kGroup][t].add(w, values + 4 * (i * kTokens + t));
      });
      for (size_t p = 0; p < kParts; ++p) {
        const Vec scale = scales.scale(g - begin, p);
        for (size_t t = 0; t < kTokens; ++t) {
          const Ints dot = dots[p][t].sum();
          sum[t] = Vec::fma(dot.to_floats(), scale * Vec::all(input_scales[t]), sum[t]);
        }
      }
      if constexpr (Kind::kMinimums) {
        const Vec minimum = scales.minimum(g - begin);
        for (size_t t = 0; t < kTokens; ++t) {
          sum[t] = Vec::fma(minimum, Vec::all(scaled_sums[t]), sum[t]);
        }
      }
      values += kGroupColumns * kTokens;
      input_scales += kTokens;
      scaled_sums += kTokens;
      sums += 3 * kTokens;
    }
    begin += n;
    tile += m.block_bytes(n);
  }
#pragma GCC unroll 16
  for (size_t t = 0; t < kTokens; ++t) total[t] = sum[t];
}

// Calls body with the GroupKind of a matrix and returns its result.
template <typename Body>
auto with_kind(const GroupMatrix& m, Body&& body) {
  if (m.fp4) return body(GroupKind<4, 32, false, true, true>{});
  if (m.byte_scales) {
    if (m.bits == 4) return body(GroupKind<4, 32, true, true>{});
    if (m.bits == 5) return body(GroupKind<5, 32, true, true>{});
    return body(GroupKind<6, 16, false, true>{});
  }
  if (m.bits == 8) return body(GroupKind<8, 32, false, false>{});
  if (m.bits == 5) return m.minimums ? body(GroupKind<5, 32, true, false>{}) : body(GroupKind<5, 32, false, false>{});
  return m.minimums ? body(GroupKind<4, 32, true, false>{}) : body(GroupKind<4, 32, false, false>{});
}

using TileKernel = void (*)(const GroupMatrix& m, const uint8_t* tile, const QuantizedInputs& x, size_t first,
                            Vec* total);

// Returns a storage format's kernels for min(n, kMostInputs) inputs, n = 1, 2, 4 and 8.
template <typename Kind>
std::array<TileKernel, 4> kernels_of() {
  const auto several = [](auto n) -> TileKernel {
    constexpr size_t kTokens = std::min<size_t>(n, kMostInputs);
    if constexpr (kTokens < kMostInputs) {
      if (select_prefetch() == Prefetch::None) return groups_tile<Kind, kTokens, Prefetch::None>;
    }
    return groups_tile<Kind, kTokens, Prefetch::L2>;
  };
  return {with_level(select_prefetch(), [](auto level) { return groups_tile<Kind, 1, level>; }),
          several(std::integral_constant<size_t, 2>{}), several(std::integral_constant<size_t, 4>{}),
          several(std::integral_constant<size_t, 8>{})};
}

// Stores the outputs of n inputs for a tile's rows from `row` on, up to row_end or the end of the tile.
inline void put_tile(const Vec* total, size_t n, size_t row, size_t row_end, float* out, size_t out_stride,
                     bool accumulate) {
  const size_t end = std::min(row_end, (row / kTileRows + 1) * kTileRows);
  put_outputs(total, n, row % kTileRows, row, end, out, out_stride, accumulate);
}

// Computes the outputs of n_rows inputs for weight rows [row_begin, row_end). Calls prepare(tile) once per tile, then
// multiply(first, tokens, total), which computes that tile's outputs for `tokens` inputs from `first` on.
template <typename Prepare, typename Multiply>
void for_tiles(size_t n_rows, const GroupMatrix& weight, size_t row_begin, size_t row_end, float* out,
               size_t out_stride, bool accumulate, Prepare&& prepare, Multiply&& multiply) {
  for (size_t row = row_begin; row < row_end; row = (row / kTileRows + 1) * kTileRows) {
    prepare(weight.tile(row / kTileRows));
    size_t tokens = 0;
    for (size_t n = 0; n < n_rows; n += tokens) {
      tokens = inputs_together(n_rows - n);
      Vec total[kMostInputs];
      multiply(n, tokens, total);
      put_tile(total, tokens, row, row_end, out + n * out_stride, out_stride, accumulate);
    }
  }
}

inline void matmul_groups(const QuantizedInputs& x, size_t n_rows, const GroupMatrix& weight, size_t row_begin,
                          size_t row_end, float* out, size_t out_stride, bool accumulate) {
  const std::array<TileKernel, 4> run = with_kind(weight, [](auto kind) { return kernels_of<decltype(kind)>(); });
  const uint8_t* tile = nullptr;
  for_tiles(
      n_rows, weight, row_begin, row_end, out, out_stride, accumulate, [&](const uint8_t* next) { tile = next; },
      [&](size_t first, size_t tokens, Vec* total) {
        run[static_cast<size_t>(std::countr_zero(tokens))](weight, tile, x, first, total);
      });
}

}  // namespace
}  // namespace folio::infer::kernels
