// matmul_groups with AVX2 for 8-bit weights and many inputs. maddubs multiplies unsigned by signed bytes, so the
// weights are split into magnitudes and signs once per tile: see SignedQuants. Included after groups_body.h.
#pragma once

#include <vector>

#include "infer/cpu/groups_body.h"

namespace folio::infer::kernels {
namespace {

// Eight weight rows of four columns as magnitudes and signs. The signs are applied to the input: x xor -1 = -x - 1, so
//
//     Σ w x = Σ |w| (x xor m) + Σ (|w| and m),   m = -1 where w < 0, else 0
//
// The last sum is the same for all inputs. |w| <= 128 and -128 <= x xor m <= 127, so the sum of two products
// fits in 16 bits.
struct SignedQuants {
  __m256i magnitudes;  ///< |w|, unsigned bytes
  __m256i signs;       ///< m: -1 where w < 0, else 0

  explicit SignedQuants(__m256i quants) {  // quants have a zero point of 128
    const __m256i w = _mm256_xor_si256(quants, _mm256_set1_epi8(static_cast<char>(0x80)));
    magnitudes = _mm256_abs_epi8(w);
    signs = _mm256_cmpgt_epi8(_mm256_setzero_si256(), w);
  }
};

// Returns `sum` with four byte products added to each 32-bit lane.
inline __m256i add_products(__m256i sum, __m256i unsigned_bytes, __m256i signed_bytes) {
  const __m256i pairs = _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// A tile of sixteen weight rows, with quants split into magnitudes and signs.
struct SignedTile {
  struct Columns {  // four columns of sixteen rows
    SignedQuants low;
    SignedQuants high;
  };

  std::vector<Columns> weights;  // (k / 4): four columns each
  std::vector<Ints> negatives;   // (k / 32): Σ (|w| and m) of a group (see SignedQuants), one row per lane
  std::vector<Vec> scales;       // (k / 32): one row per lane
};

template <typename Kind>
void split_signs(const GroupMatrix& m, const uint8_t* tile, SignedTile& to) {
  const auto with_negatives = [](__m256i sum, const SignedQuants& w) {
    return add_products(sum, _mm256_and_si256(w.magnitudes, w.signs), _mm256_set1_epi8(1));
  };
  to.weights.clear();
  to.weights.reserve(m.k / 4);
  to.negatives.clear();
  to.scales.clear();
  for_groups<Kind>(m, tile, [&](size_t /*group*/, const uint8_t* quants, const BlockScales<Kind>& scales, size_t g) {
    Ints negatives = Ints::all(0);
    for_quants<Kind>(quants, [&](auto /*i*/, Bytes four) {
      to.weights.push_back({SignedQuants(four.low), SignedQuants(four.high)});
      const auto& [low, high] = to.weights.back();
      negatives = {with_negatives(negatives.low, low), with_negatives(negatives.high, high)};
    });
    to.negatives.push_back(negatives);
    to.scales.push_back(scales.scale(g, 0));
  });
}

// Computes total[t], the product of the tile and input first + t, for t < kTokens.
template <size_t kTokens>
void signed_tile(const SignedTile& tile, size_t k, const QuantizedInputs& x, size_t first, Vec* total) {
  const size_t groups = k / kGroupColumns;
  const int8_t* values = x.values + first * k;
  const float* input_scales = x.scales + first * groups;
  const SignedTile::Columns* weights = tile.weights.data();
  Vec sum[kTokens];
  for (Vec& s : sum) s = Vec::zero();
  for (size_t g = 0; g < groups; ++g) {
    // Uses __m256i instead of Ints, and no copy of the scales: g++ would copy these structs in 128-bit halves, and then
    // a 256-bit load of a copy would stall, because store forwarding fails.
    __m256i low[kTokens], high[kTokens];
    for (size_t t = 0; t < kTokens; ++t) {
      low[t] = tile.negatives[g].low;
      high[t] = tile.negatives[g].high;
    }
    for_constants<kGroupColumns / 4>([&](auto i) {
      const SignedTile::Columns& w = weights[i];
      for (size_t t = 0; t < kTokens; ++t) {
        int32_t four;
        std::memcpy(&four, values + 4 * (i * kTokens + t), sizeof four);
        const __m256i v = _mm256_set1_epi32(four);
        low[t] = add_products(low[t], w.low.magnitudes, _mm256_xor_si256(v, w.low.signs));
        high[t] = add_products(high[t], w.high.magnitudes, _mm256_xor_si256(v, w.high.signs));
      }
    });
    for (size_t t = 0; t < kTokens; ++t) {
      sum[t] = Vec::fma(Ints{low[t], high[t]}.to_floats(), tile.scales[g] * Vec::all(input_scales[t]), sum[t]);
    }
    weights += kGroupColumns / 4;
    values += kGroupColumns * kTokens;
    input_scales += kTokens;
  }
  std::copy_n(sum, kTokens, total);
}

void matmul_groups_avx2(const QuantizedInputs& x, size_t n_rows, const GroupMatrix& weight, size_t row_begin,
                        size_t row_end, float* out, size_t out_stride, bool accumulate) {
  constexpr size_t kManyInputs = 32;  // enough to amortize split_signs
  if (weight.bits != 8 || n_rows < kManyInputs)
    return matmul_groups(x, n_rows, weight, row_begin, row_end, out, out_stride, accumulate);
  SignedTile signed_weights;
  for_tiles(
      n_rows, weight, row_begin, row_end, out, out_stride, accumulate,
      [&](const uint8_t* tile) { split_signs<GroupKind<8, 32, false, false>>(weight, tile, signed_weights); },
      [&](size_t first, size_t tokens, Vec* total) {
        if (tokens == 4) signed_tile<4>(signed_weights, weight.k, x, first, total);
        if (tokens == 2) signed_tile<2>(signed_weights, weight.k, x, first, total);
        if (tokens == 1) signed_tile<1>(signed_weights, weight.k, x, first, total);
      });
}

}  // namespace
}  // namespace folio::infer::kernels
