// Implements Vec, the vector of sixteen floats that all vector kernels use, with two AVX registers.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

struct Vec {
  // Maximum number of sums (Vecs) in a product's tile: they use 8 of the 16 registers.
  static constexpr size_t kTileSums = 4;
  // Maximum number of sums (Vecs) that attention keeps in registers, along with the operands that they share.
  static constexpr size_t kMostSums = 4;
  // Maximum numbers of inputs (matmul_panels.h) and of queries (attention_body.h) whose sums fit in registers.
  static constexpr size_t kPanelInputs = 6;
  static constexpr size_t kMostQueries = 6;

  __m256 low;
  __m256 high;

  /// Returns a mask with all bits set in the first n of eight lanes.
  static __m256i mask8(size_t n) {
    alignas(32) static constexpr int32_t kOnes[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kOnes + 8 - n));
  }
  static __m256i low_mask(size_t n) { return mask8(std::min<size_t>(n, 8)); }
  static __m256i high_mask(size_t n) { return mask8(n > 8 ? n - 8 : 0); }

  static Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static Vec load_first(const float* p, size_t n) {
    if (n == 16) return load(p);
    return {_mm256_maskload_ps(p, low_mask(n)), n > 8 ? _mm256_maskload_ps(p + 8, high_mask(n)) : _mm256_setzero_ps()};
  }
  static Vec load(const F16* p) { return {_mm256_cvtph_ps(eight(p)), _mm256_cvtph_ps(eight(p + 8))}; }
  static Vec load(const BF16* p) { return {widened(eight(p)), widened(eight(p + 8))}; }
  static Vec load(const uint8_t* p) { return of_ints(_mm256_cvtepu8_epi32(eight(p)), _mm256_cvtepu8_epi32(upper(p))); }
  static Vec load(const int8_t* p) { return of_ints(_mm256_cvtepi8_epi32(eight(p)), _mm256_cvtepi8_epi32(upper(p))); }
  static Vec of_ints(__m256i low, __m256i high) { return {_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)}; }
  static __m128i upper(const void* sixteen_bytes) { return _mm_bsrli_si128(eight(sixteen_bytes), 8); }
  static Vec load(const Q8* p) { return load(reinterpret_cast<const int8_t*>(p)); }
  static __m128i eight(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static __m256 widened(__m128i bf16) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bf16), 16));
  }
  /// Loads n elements and zeros the other lanes. Copies the elements first, because AVX2 has no masked loads of 8- or
  /// 16-bit elements.
  template <typename Narrow>
  static Vec load_first(const Narrow* p, size_t n) {
    Narrow first[16] = {};
    std::copy_n(p, n, first);
    return load(first);
  }
  void store(float* p) const {
    _mm256_storeu_ps(p, low);
    _mm256_storeu_ps(p + 8, high);
  }
  void store_first(float* p, size_t n) const {
    if (n == 16) return store(p);  // maskstore is many times slower on AMD
    _mm256_maskstore_ps(p, low_mask(n), low);
    if (n > 8) _mm256_maskstore_ps(p + 8, high_mask(n), high);
  }
  /// Stores the first n lanes as F16, rounded to nearest, ties to even.
  void store_first(F16* p, size_t n) const {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    F16 all[16];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(all), _mm256_cvtps_ph(low, kNearest));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(all + 8), _mm256_cvtps_ph(high, kNearest));
    std::copy_n(all, n, p);
  }
  /// Returns a vector whose first n lanes are those of *this and whose other lanes are those of `rest`.
  [[nodiscard]] Vec first_or(size_t n, Vec rest) const {
    return {_mm256_blendv_ps(rest.low, low, _mm256_castsi256_ps(low_mask(n))),
            _mm256_blendv_ps(rest.high, high, _mm256_castsi256_ps(high_mask(n)))};
  }

  friend Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
  friend Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
  friend Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
  friend Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
  /// Returns a * b + c, rounded once.
  static Vec fma(Vec a, Vec b, Vec c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
  static Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
  static Vec round(Vec a) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.low, kNearest), _mm256_round_ps(a.high, kNearest)};
  }
  /// Returns 2^n for integers n in [-126, 127].
  static Vec power_of_two(Vec n) {
    const auto half = [](__m256 x) {
      const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127));
      return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
    };
    return {half(n.low), half(n.high)};
  }
  /// Swaps lanes 2i and 2i + 1.
  [[nodiscard]] Vec swap_pairs() const {
    return {_mm256_permute_ps(low, 0b10110001), _mm256_permute_ps(high, 0b10110001)};
  }
  [[nodiscard]] float largest() const {
    __m256 m = _mm256_max_ps(low, high);
    m = _mm256_max_ps(m, _mm256_permute2f128_ps(m, m, 1));
    m = _mm256_max_ps(m, _mm256_permute_ps(m, 0b01001110));
    m = _mm256_max_ps(m, _mm256_permute_ps(m, 0b10110001));
    return _mm256_cvtss_f32(m);
  }

  /// Transposes 16 × 16: lane r of columns[c] becomes lane c of rows[r].
  static void transpose(const Vec* rows, Vec* columns) {
    const auto eight_by_eight = [&](size_t first_row, __m256 Vec::*in, size_t first_column, __m256 Vec::*out) {
      __m256 pairs[8];  // [r]: columns 0, 1, 4, 5 of rows r and r + 1, interleaved; [r + 1]: columns 2, 3, 6, 7
      for (size_t r = 0; r < 8; r += 2) {
        const __m256 x = rows[first_row + r].*in;
        const __m256 y = rows[first_row + r + 1].*in;
        pairs[r] = _mm256_unpacklo_ps(x, y);
        pairs[r + 1] = _mm256_unpackhi_ps(x, y);
      }
      for (size_t c = 0; c < 4; ++c) {  // four(r) returns column c of rows r to r + 3, then column c + 4
        const auto four = [&](size_t r) {
          const __m256 x = pairs[r + c / 2];
          const __m256 y = pairs[r + 2 + c / 2];
          return c % 2 == 0 ? _mm256_shuffle_ps(x, y, 0x44) : _mm256_shuffle_ps(x, y, 0xEE);
        };
        columns[first_column + c].*out = _mm256_permute2f128_ps(four(0), four(4), 0x20);
        columns[first_column + c + 4].*out = _mm256_permute2f128_ps(four(0), four(4), 0x31);
      }
    };
    eight_by_eight(0, &Vec::low, 0, &Vec::low);
    eight_by_eight(8, &Vec::low, 0, &Vec::high);
    eight_by_eight(0, &Vec::high, 8, &Vec::low);
    eight_by_eight(8, &Vec::high, 8, &Vec::high);
  }

  /// Returns in lane i the sum of the lanes of s[i], in the order of reference/kernels.h.
  static Vec join_lanes(const Vec (&s)[16]) {
    const auto by_8 = [&](size_t i) { return _mm256_add_ps(s[i].low, s[i].high); };
    const auto by_4 = [](__m256 a, __m256 b) {
      return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    };
    const auto by_2 = [](__m256 a, __m256 b) {
      return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xEE));
    };
    const auto by_1 = [](__m256 a, __m256 b) {
      return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xDD));
    };
    // by_4(a, b) returns partial sums of a in the low half and of b in the high half. by_2() and by_1() add pairs of
    // lanes and interleave the results, so lane j of the last result is the sum of s[i + j].
    const auto eight = [&](size_t i) {
      const auto pair = [&](size_t j) { return by_4(by_8(i + j), by_8(i + j + 4)); };
      return by_1(by_2(pair(0), pair(1)), by_2(pair(2), pair(3)));
    };
    return {eight(0), eight(8)};
  }
};

}  // namespace
}  // namespace folio::infer::kernels
