// Products of sixteen inputs with BF16 weights by the processor's own products of BF16, for --fast: see
// Kernels::matmul_fast. Two columns of sixteen weight rows are one register:
//
//     sums (16 rows)  +=  two columns of sixteen weight rows  x  two columns of an input
//
// Included after vec_avx512.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

// Two columns of sixteen rows or inputs. A type of its own, for a vector of it has internal linkage.
struct alignas(64) FastColumns {
  BF16 numbers[2 * kFastInputs];
};

// Sixteen pairs of columns, sixteen pairs apart.
inline void put_pairs(__m512i pairs, BF16* to) {
  const __m512i places = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                            _mm512_set1_epi32(kFastInputs));
  _mm512_i32scatter_epi32(to, places, pairs, 4);
}

inline void to_fast(const float* x, size_t n, size_t k, BF16* out) {
  for (size_t t = 0; t < kFastInputs; ++t) {
    for (size_t i = 0; i < k; i += 32) {
      const float* from = x + t * k + i;
      const __m512i pairs =
          t >= n ? _mm512_setzero_si512()
                 : std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(Vec::load(from + 16).v, Vec::load(from).v));
      put_pairs(pairs, out + i * kFastInputs + 2 * t);
    }
  }
}

// The panel of sixteen rows: two columns of them lie side by side, (k / 2, 16 rows, 2). Rows past the end repeat the
// last one.
inline void fast_panel(const BF16* weight, size_t k, size_t row, size_t row_end, BF16* panel) {
  for (size_t r = 0; r < kFastInputs; ++r) {
    const BF16* from = weight + std::min(row + r, row_end - 1) * k;
    for (size_t i = 0; i < k; i += 32) put_pairs(_mm512_loadu_si512(from + i), panel + i * kFastInputs + 2 * r);
  }
}

inline void matmul_fast(const BF16* x, size_t n_rows, const BF16* weight, size_t k, size_t row_begin, size_t row_end,
                        float* out, size_t out_stride, bool accumulate) {
  thread_local std::vector<FastColumns> memory;
  memory.resize(std::max(memory.size(), k / 2));
  BF16* panel = memory.data()->numbers;
  for (size_t row = row_begin; row < row_end; row += kFastInputs) {
    fast_panel(weight, k, row, row_end, panel);
    const size_t n = std::min(kFastInputs, row_end - row);
    for (size_t first = 0; first < n_rows; first += kFastInputs) {
      const BF16* tile = x + first * k;
      __m512 sum[kFastInputs];
      for (__m512& s : sum) s = _mm512_setzero_ps();
      for (size_t i = 0; i < k; i += 2) {
        const auto rows = std::bit_cast<__m512bh>(_mm512_loadu_si512(panel + i * kFastInputs));
#pragma GCC unroll 16
        for (size_t t = 0; t < kFastInputs; ++t) {
          int32_t pair;
          std::memcpy(&pair, tile + i * kFastInputs + 2 * t, sizeof pair);
          sum[t] = _mm512_dpbf16_ps(sum[t], rows, std::bit_cast<__m512bh>(_mm512_set1_epi32(pair)));
        }
      }
      for (size_t t = 0; t < std::min(kFastInputs, n_rows - first); ++t) {
        float* to = out + (first + t) * out_stride + row;
        (accumulate ? Vec::load_first(to, n) + Vec{sum[t]} : Vec{sum[t]}).store_first(to, n);
      }
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
