// Sixty-four quants and sixteen sums of integers in pairs of AVX2 registers, for groups_body.h.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "infer/cpu/vec_avx2.h"

namespace folio::infer::kernels {
namespace {

struct Bytes {
  __m256i low;
  __m256i high;

  static Bytes load(const uint8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
  }
  [[nodiscard]] Bytes low_nibbles() const {
    const __m256i mask = _mm256_set1_epi8(0x0F);
    return {_mm256_and_si256(low, mask), _mm256_and_si256(high, mask)};
  }
  [[nodiscard]] Bytes high_nibbles() const {
    return Bytes{_mm256_srli_epi16(low, 4), _mm256_srli_epi16(high, 4)}.low_nibbles();
  }
};

struct Ints {
  // The most inputs whose sums and totals fit the registers.
  static constexpr size_t kMostTokens = 2;

  __m256i low;
  __m256i high;

  static Ints all(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  [[nodiscard]] Vec to_floats() const { return {_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)}; }

  /// Adds Σ w[4 l + i] values[i], i < 4, to lane l. kSmall: no w is above 15.
  template <bool kSmall>
  [[nodiscard]] Ints add_dot(Bytes w, const int8_t* values) const {
    int32_t four;
    std::memcpy(&four, values, sizeof four);
    const __m256i a = _mm256_set1_epi32(four);
    return {_mm256_add_epi32(low, dots<kSmall>(w.low, a)), _mm256_add_epi32(high, dots<kSmall>(w.high, a))};
  }

 private:
  template <bool kSmall>
  static __m256i dots(__m256i w, __m256i a) {
    if constexpr (kSmall) {  // the sum of two products is at most 2 * 15 * 127 and fits 16 bits
      return _mm256_madd_epi16(_mm256_maddubs_epi16(w, a), _mm256_set1_epi16(1));
    }
    // The sum of two products may exceed 16 bits, where maddubs saturates. So even and odd columns are multiplied
    // separately, as numbers of 16 bits.
    const __m256i even = _mm256_and_si256(w, _mm256_set1_epi16(0x00FF));
    const __m256i odd = _mm256_srli_epi16(w, 8);
    const __m256i a_even = _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8);
    const __m256i a_odd = _mm256_srai_epi16(a, 8);
    return _mm256_add_epi32(_mm256_madd_epi16(even, a_even), _mm256_madd_epi16(odd, a_odd));
  }
};

}  // namespace
}  // namespace folio::infer::kernels
