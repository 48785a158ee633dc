// matmul_fast with AVX-512 BF16. One vdpbf16ps multiplies two columns of sixteen weight rows, which fill a register, by
// the same two columns of an input, and adds the products to sixteen float sums. Included after vec_avx512.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "infer/cpu/prefetch.h"
#include "infer/cpu/put_outputs.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

inline void to_fast(const float* x, size_t k, BF16* out) {
  for (size_t i = 0; i < k; i += 32) {
    const Vec low = Vec::load_first(x + i, std::min(k - i, kLanes));
    const Vec high = k - i > kLanes ? Vec::load_first(x + i + kLanes, std::min(k - i - kLanes, kLanes)) : Vec::zero();
    _mm512_storeu_si512(out + i, std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(high.v, low.v)));
  }
}

// Multiplies kPanels panels by kInputs inputs. Prefetching the weights (`level`) pays off only for a single input.
template <size_t kPanels, size_t kInputs, Prefetch level>
inline void fast_tile(const BF16* const* panel, const BF16* const* x, size_t columns, Vec (*sums)[kInputs]) {
  constexpr size_t kAhead = kBytesAhead / sizeof(BF16);
  __m512 sum[kPanels][kInputs];
  for (auto& of_panel : sum) std::fill_n(of_panel, kInputs, _mm512_setzero_ps());
  for (size_t i = 0; i < columns; i += 2) {
    __m512bh pairs[kPanels];
    for (size_t p = 0; p < kPanels; ++p) {
      prefetch_line<level>(panel[p] + i * kLanes + kAhead);
      pairs[p] = std::bit_cast<__m512bh>(_mm512_loadu_si512(panel[p] + i * kLanes));
    }
#pragma GCC unroll 16
    for (size_t t = 0; t < kInputs; ++t) {
      int32_t pair;
      std::memcpy(&pair, x[t] + i, sizeof pair);
      const auto input = std::bit_cast<__m512bh>(_mm512_set1_epi32(pair));
#pragma GCC unroll 16
      for (size_t p = 0; p < kPanels; ++p) sum[p][t] = _mm512_dpbf16_ps(sum[p][t], pairs[p], input);
    }
  }
  for (size_t p = 0; p < kPanels; ++p) {
    for (size_t t = 0; t < kInputs; ++t) sums[p][t] = {sum[p][t]};
  }
}

// Multiplies the weight rows [begin, end) by n <= kInputs inputs, kPanels panels at a time; if fewer panels remain,
// half as many at a time. Missing inputs are replaced by copies of the last one, whose results are not stored.
template <size_t kPanels, size_t kInputs, Prefetch level>
void fast_rows(const BF16* x, size_t n, const PanelMatrix& weight, size_t k, size_t begin, size_t end, float* out,
               size_t out_stride, bool accumulate) {
  const size_t columns = panel_columns(k);
  const BF16* in[kInputs];
  for (size_t t = 0; t < kInputs; ++t) in[t] = x + std::min(t, n - 1) * columns;
  size_t row = begin;
  for (; row + (kPanels - 1) * kLanes < end; row += kPanels * kLanes) {
    const BF16* panel[kPanels];
    for (size_t p = 0; p < kPanels; ++p) panel[p] = weight.panels + in_panels(k, row + p * kLanes, 0);
    Vec sums[kPanels][kInputs];
    fast_tile<kPanels, kInputs, level>(panel, in, columns, sums);
    for (size_t p = 0; p < kPanels; ++p) {
      const size_t first = row + p * kLanes;
      put_outputs(sums[p], n, 0, first, std::min(end, first + kLanes), out, out_stride, accumulate);
    }
  }
  if constexpr (kPanels > 1) {
    if (row < end) {
      fast_rows<kPanels / 2, kInputs, level>(x, n, weight, k, row, end, out, out_stride, accumulate);
    }
  }
}

// Implements Kernels::matmul_fast. Four panels at a time stay in the L2 cache while all inputs are multiplied by them.
inline void matmul_fast(const BF16* x, size_t n_rows, const PanelMatrix& weight, size_t k, size_t row_begin,
                        size_t row_end, float* out, size_t out_stride, bool accumulate) {
  constexpr size_t kRows = 4 * kLanes;
  if (n_rows == 1) {
    const auto run = with_level(select_prefetch(), [](auto level) { return fast_rows<4, 1, level>; });
    return run(x, 1, weight, k, row_begin, row_end, out, out_stride, accumulate);
  }
  for (size_t row = row_begin; row < row_end; row += kRows) {
    for (size_t first = 0; first < n_rows;) {
      const size_t left = n_rows - first;
      const auto run = left > 8   ? fast_rows<2, 12, Prefetch::None>
                       : left > 4 ? fast_rows<2, 8, Prefetch::None>
                       : left > 2 ? fast_rows<4, 4, Prefetch::None>
                                  : fast_rows<4, 2, Prefetch::None>;
      const size_t n = std::min<size_t>(left, 12);
      run(x + first * panel_columns(k), n, weight, k, row, std::min(row_end, row + kRows), out + first * out_stride,
          out_stride, accumulate);
      first += n;
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
