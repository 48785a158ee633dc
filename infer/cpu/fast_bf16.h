// Products of sixteen inputs with BF16 weights by the processor's own products of BF16, for --fast: see
// Kernels::matmul_fast. Two columns of sixteen inputs are one register:
//
//     sums (16 inputs)  +=  two columns of sixteen inputs  x  two columns of a weight row
//
// Included after vec_avx512.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

// A scatter writes the sixteen pairs of an input where they belong.
inline void to_fast(const float* x, size_t n, size_t k, BF16* out) {
  const __m512i places = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                            _mm512_set1_epi32(kFastInputs));
  for (size_t t = 0; t < kFastInputs; ++t) {
    for (size_t i = 0; i < k; i += 32) {
      const float* from = x + t * k + i;
      const __m512i pairs =
          t >= n ? _mm512_setzero_si512()
                 : std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(Vec::load(from + 16).v, Vec::load(from).v));
      _mm512_i32scatter_epi32(out + i * kFastInputs + 2 * t, places, pairs, 4);
    }
  }
}

// sums[r * 16 + t]: row r of sixteen times input t of a tile.
inline void fast_tile(const BF16* x, const BF16* const* weight, size_t k, float* sums) {
  __m512 sum[kFastInputs];
  for (__m512& s : sum) s = _mm512_setzero_ps();
  for (size_t i = 0; i < k; i += 2) {
    const __m512i inputs = _mm512_loadu_si512(x + i * kFastInputs);
#pragma GCC unroll 16
    for (size_t r = 0; r < kFastInputs; ++r) {
      int32_t pair;
      std::memcpy(&pair, weight[r] + i, sizeof pair);
      sum[r] =
          _mm512_dpbf16_ps(sum[r], std::bit_cast<__m512bh>(inputs), std::bit_cast<__m512bh>(_mm512_set1_epi32(pair)));
    }
  }
  for (size_t r = 0; r < kFastInputs; ++r) _mm512_storeu_ps(sums + r * kFastInputs, sum[r]);
}

// All tiles; tile(x, weight, k, sums) is fast_tile or does the same. Rows past the end repeat the last one.
template <typename Tile>
inline void fast_tiles(const BF16* x, size_t n_rows, const BF16* weight, size_t k, size_t row_begin, size_t row_end,
                       float* out, size_t out_stride, bool accumulate, Tile&& tile) {
  for (size_t row = row_begin; row < row_end; row += kFastInputs) {
    const BF16* rows[kFastInputs];
    for (size_t r = 0; r < kFastInputs; ++r) rows[r] = weight + std::min(row + r, row_end - 1) * k;
    const size_t n = std::min(kFastInputs, row_end - row);
    for (size_t first = 0; first < n_rows; first += kFastInputs) {
      alignas(64) float sums[kFastInputs * kFastInputs];
      tile(x + first * k, rows, k, sums);
      for (size_t t = 0; t < std::min(kFastInputs, n_rows - first); ++t) {
        float* to = out + (first + t) * out_stride + row;
        for (size_t r = 0; r < n; ++r) to[r] = (accumulate ? to[r] : 0.0F) + sums[r * kFastInputs + t];
      }
    }
  }
}

inline void matmul_fast(const BF16* x, size_t n_rows, const BF16* weight, size_t k, size_t row_begin, size_t row_end,
                        float* out, size_t out_stride, bool accumulate) {
  fast_tiles(x, n_rows, weight, k, row_begin, row_end, out, out_stride, accumulate, fast_tile);
}

}  // namespace
}  // namespace folio::infer::kernels
