// Sixty-four quants and sixteen sums of integers in AVX-512 registers, for groups_body.h.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "infer/cpu/vec_avx512.h"

namespace folio::infer::kernels {
namespace {

struct Bytes {
  __m512i v;

  static Bytes load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  [[nodiscard]] Bytes low_nibbles() const { return {_mm512_and_si512(v, _mm512_set1_epi8(0x0F))}; }
  [[nodiscard]] Bytes high_nibbles() const { return Bytes{_mm512_srli_epi16(v, 4)}.low_nibbles(); }
};

struct Ints {
  // The most inputs whose sums and totals fit the registers.
  static constexpr size_t kMostTokens = 8;

  __m512i v;

  static Ints all(int32_t x) { return {_mm512_set1_epi32(x)}; }
  [[nodiscard]] Vec to_floats() const { return {_mm512_cvtepi32_ps(v)}; }

  /// Adds Σ w[4 l + i] values[i], i < 4, to lane l. kSmall: no w is above 15.
  template <bool kSmall>
  [[nodiscard]] Ints add_dot(Bytes w, const int8_t* values) const {
    int32_t four;
    std::memcpy(&four, values, sizeof four);
    const __m512i a = _mm512_set1_epi32(four);
#if defined(__AVX512VNNI__)
    return {_mm512_dpbusd_epi32(v, w.v, a)};
#else
    if constexpr (kSmall) {  // the sum of two products is at most 2 * 15 * 127 and fits 16 bits
      return {_mm512_add_epi32(v, _mm512_madd_epi16(_mm512_maddubs_epi16(w.v, a), _mm512_set1_epi16(1)))};
    }
    // The sum of two products may exceed 16 bits, where maddubs saturates. So even and odd columns are multiplied
    // separately, as numbers of 16 bits.
    const __m512i even = _mm512_and_si512(w.v, _mm512_set1_epi16(0x00FF));
    const __m512i odd = _mm512_srli_epi16(w.v, 8);
    const __m512i a_even = _mm512_srai_epi16(_mm512_slli_epi16(a, 8), 8);
    const __m512i a_odd = _mm512_srai_epi16(a, 8);
    const __m512i pairs = _mm512_add_epi32(_mm512_madd_epi16(even, a_even), _mm512_madd_epi16(odd, a_odd));
    return {_mm512_add_epi32(v, pairs)};
#endif
  }
};

}  // namespace
}  // namespace folio::infer::kernels
