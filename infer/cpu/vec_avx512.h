// Implements Vec, the vector of sixteen floats that all vector kernels use, with an AVX-512 register.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

struct Vec {
  // Maximum number of sums (Vecs) in a product's tile: they use 16 of the 32 registers.
  static constexpr size_t kTileSums = 16;
  // Maximum number of sums (Vecs) that attention keeps in registers, along with the operands that they share.
  static constexpr size_t kMostSums = 24;
  // Maximum numbers of inputs (matmul_packed.h) and of queries (attention_body.h) whose sums fit in registers.
  static constexpr size_t kPackedInputs = 12;
  static constexpr size_t kMostQueries = 12;

  __m512 v;

  static __mmask16 mask(size_t n) { return static_cast<__mmask16>((1U << n) - 1U); }

  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec all(float x) { return {_mm512_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec load_first(const float* p, size_t n) { return {_mm512_maskz_loadu_ps(mask(n), p)}; }
  static Vec load(const F16* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
  static Vec load_first(const F16* p, size_t n) { return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask(n), p))}; }
  static Vec load(const BF16* p) { return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static Vec load_first(const BF16* p, size_t n) { return widened(_mm256_maskz_loadu_epi16(mask(n), p)); }
  /// Loads sixteen BF16 pairs, one per lane, without converting them.
  static Vec load(const BF16Pair* p) { return {_mm512_loadu_ps(p)}; }
  static Vec load_first(const BF16Pair* p, size_t n) { return {_mm512_maskz_loadu_ps(mask(n), p)}; }
  static Vec load(const uint8_t* p) { return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(sixteen(p)))}; }
  static Vec load(const int8_t* p) { return widened(sixteen(p)); }
  static __m128i sixteen(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static Vec load(const Q8* p) { return load(reinterpret_cast<const int8_t*>(p)); }
  static Vec load_first(const Q8* p, size_t n) { return widened(_mm_maskz_loadu_epi8(mask(n), p)); }
  static Vec widened(__m128i quants) { return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(quants))}; }
  static Vec widened(__m256i bf16) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16))}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store_first(float* p, size_t n) const { _mm512_mask_storeu_ps(p, mask(n), v); }
  /// Stores the first n lanes as F16, rounded to nearest, ties to even.
  void store_first(F16* p, size_t n) const {
    _mm256_mask_storeu_epi16(p, mask(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  /// Returns a vector whose first n lanes are those of *this and whose other lanes are those of `rest`.
  [[nodiscard]] Vec first_or(size_t n, Vec rest) const { return {_mm512_mask_blend_ps(mask(n), rest.v, v)}; }

  friend Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
  /// Returns a * b + c, rounded once.
  static Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
  static Vec round(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  /// Returns 2^n for integers n in [-126, 127].
  static Vec power_of_two(Vec n) {
    const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
  }
  /// Swaps lanes 2i and 2i + 1.
  [[nodiscard]] Vec swap_pairs() const { return {_mm512_permute_ps(v, 0b10110001)}; }
  [[nodiscard]] float largest() const { return _mm512_reduce_max_ps(v); }

  /// Transposes 16 × 16: lane r of columns[c] becomes lane c of rows[r].
  static void transpose(const Vec* rows, Vec* columns) {
    __m512 pairs[16];  // quarter q: columns 4q, 4q + 1 of rows r and r + 1 in [r]; 4q + 2, 4q + 3 in [r + 1]
    for (size_t r = 0; r < 16; r += 2) {
      pairs[r] = _mm512_unpacklo_ps(rows[r].v, rows[r + 1].v);
      pairs[r + 1] = _mm512_unpackhi_ps(rows[r].v, rows[r + 1].v);
    }
    for (size_t c = 0; c < 4; ++c) {
      const auto four = [&](size_t r) {  // returns column 4q + c of rows r to r + 3 in quarter q
        const __m512 x = pairs[r + c / 2];
        const __m512 y = pairs[r + 2 + c / 2];
        return c % 2 == 0 ? _mm512_shuffle_ps(x, y, 0x44) : _mm512_shuffle_ps(x, y, 0xEE);
      };
      const __m512 first = four(0), second = four(4), third = four(8), fourth = four(12);
      const __m512 low_a = _mm512_shuffle_f32x4(first, second, 0x44), low_b = _mm512_shuffle_f32x4(third, fourth, 0x44);
      const __m512 top_a = _mm512_shuffle_f32x4(first, second, 0xEE), top_b = _mm512_shuffle_f32x4(third, fourth, 0xEE);
      columns[c].v = _mm512_shuffle_f32x4(low_a, low_b, 0x88);
      columns[4 + c].v = _mm512_shuffle_f32x4(low_a, low_b, 0xDD);
      columns[8 + c].v = _mm512_shuffle_f32x4(top_a, top_b, 0x88);
      columns[12 + c].v = _mm512_shuffle_f32x4(top_a, top_b, 0xDD);
    }
  }

  /// Returns in lane i the sum of the lanes of s[i], in the order of reference/kernels.h.
  static Vec join_lanes(const Vec (&s)[16]) {
    const auto by_8 = [](__m512 a, __m512 b) {
      return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    };
    const auto by_4 = [](__m512 a, __m512 b) {
      return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
    };
    const auto by_2 = [](__m512 a, __m512 b) {
      return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xEE));
    };
    const auto by_1 = [](__m512 a, __m512 b) {
      return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
    };
    // quad(i) has partial sums of s[i], s[i + 4], s[i + 8] and s[i + 12], each in a quarter. by_2() and by_1() add
    // pairs of lanes and interleave the results, so lane i of the last result is the sum of s[i].
    const auto quad = [&](size_t i) { return by_4(by_8(s[i].v, s[i + 4].v), by_8(s[i + 8].v, s[i + 12].v)); };
    return {by_1(by_2(quad(0), quad(1)), by_2(quad(2), quad(3)))};
  }
};

}  // namespace
}  // namespace folio::infer::kernels
