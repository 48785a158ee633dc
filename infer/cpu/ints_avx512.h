// Integer vectors for groups_body.h in AVX-512 registers: 64 quants (Bytes) and sixteen sums (Ints, Dots).
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "infer/cpu/vec_avx512.h"

namespace folio::infer::kernels {
namespace {

/// Maximum number of inputs whose sums fit in registers.
constexpr size_t kMostInputs = 8;

struct Bytes {
  __m512i v;

  static Bytes load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  /// Shifts each byte right by kRight (left if negative) and keeps the bits in `mask`.
  template <int kRight>
  [[nodiscard]] Bytes bits(uint8_t mask) const {
    const auto shifted = [](__m512i x) {
      if constexpr (kRight > 0) return _mm512_srli_epi16(x, kRight);
      if constexpr (kRight < 0) return _mm512_slli_epi16(x, -kRight);
      return x;
    };
    return {_mm512_and_si512(shifted(v), _mm512_set1_epi8(static_cast<char>(mask)))};
  }
  /// Replaces each byte i, i < 16, with table[i].
  [[nodiscard]] Bytes numbers_of(const uint8_t* table) const {
    const __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    return {_mm512_shuffle_epi8(t, v)};
  }
  friend Bytes operator|(Bytes a, Bytes b) { return {_mm512_or_si512(a.v, b.v)}; }
};

struct Ints {
  __m512i v;

  /// Multiplies each lane by n, a power of two.
  template <int n>
  [[nodiscard]] Ints times() const {
    return {_mm512_slli_epi32(v, std::countr_zero(static_cast<unsigned>(n)))};
  }
  static Ints all(int32_t x) { return {_mm512_set1_epi32(x)}; }
  [[nodiscard]] Vec to_floats() const { return {_mm512_cvtepi32_ps(v)}; }
  friend Ints operator+(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
};

/// Sixteen sums of products of kBits-bit quants and inputs. With VNNI, vpdpbusd adds four products in 32 bits. Without
/// it, maddubs adds two in 16 bits; the sums are widened to 32 bits before they could overflow.
template <int kBits>
struct Dots {
#if defined(__AVX512VNNI__)
  static constexpr bool kSubtractsZeroPoint = false;
#else
  /// True if Weights subtracts the zero point of 128 from 8-bit quants.
  static constexpr bool kSubtractsZeroPoint = kBits == 8;
#endif
  /// Starts the sums at z * *sum, where z is the zero point and *sum is -Σ x, because Σ (q - z) x = Σ q x - z Σ x.
  void start(const int32_t* sum) { sums = Ints::all(*sum).template times<1 << (kBits - 1)>().v; }
#if defined(__AVX512VNNI__)
  /// Quants of sixteen rows and four columns as an operand of vpdpbusd, the same for all inputs.
  struct Weights {
    explicit Weights(Bytes w) : v(w.v) {}
    __m512i v;
  };

  /// Adds Σ w[4 l + i] values[i], i < 4, to lane l.
  void add(const Weights& w, const int8_t* values) { sums = _mm512_dpbusd_epi32(sums, w.v, four(values)); }
  Ints sum() { return {sums}; }
#else
  struct Weights {
    explicit Weights(Bytes w) : even(w.v), odd(w.v) {
      if constexpr (kBits == 8) {  // 8-bit quants are widened to 16 bits
        const __m512i centered = _mm512_xor_si512(w.v, _mm512_set1_epi8(static_cast<char>(0x80)));
        even = _mm512_srai_epi16(_mm512_slli_epi16(centered, 8), 8);
        odd = _mm512_srai_epi16(centered, 8);
      }
    }
    __m512i even;
    __m512i odd;
  };

  /// Adds Σ w[4 l + i] values[i], i < 4, to lane l.
  void add(const Weights& w, const int8_t* values) {
    const __m512i a = four(values);
    if constexpr (kBits == 8) {
      const __m512i a_even = _mm512_srai_epi16(_mm512_slli_epi16(a, 8), 8);
      const __m512i a_odd = _mm512_srai_epi16(a, 8);
      sums =
          _mm512_add_epi32(sums, _mm512_add_epi32(_mm512_madd_epi16(w.even, a_even), _mm512_madd_epi16(w.odd, a_odd)));
    } else {
      sums16 = _mm512_add_epi16(sums16, _mm512_maddubs_epi16(w.even, a));
      if (++n_added == kMostAdded) widen();
    }
  }
  Ints sum() {
    if constexpr (kBits != 8) {
      if (n_added > 0) widen();
    }
    return {sums};
  }
#endif

 private:
  static __m512i four(const int8_t* values) {
    int32_t word;
    std::memcpy(&word, values, sizeof word);
    return _mm512_set1_epi32(word);
  }

  __m512i sums = _mm512_setzero_si512();
#if !defined(__AVX512VNNI__)
  // Maximum additions before widen(): each adds two products of a quant (up to 15, 31 or 63) and an input (up to 127).
  static constexpr int kMostAdded = 32767 / (((1 << kBits) - 1) * 254);

  void widen() {
    sums = _mm512_add_epi32(sums, _mm512_madd_epi16(sums16, _mm512_set1_epi16(1)));
    sums16 = _mm512_setzero_si512();
    n_added = 0;
  }

  __m512i sums16 = _mm512_setzero_si512();
  int n_added = 0;  // additions since widen(); a compile-time constant once the callers' loops are unrolled
#endif
};

}  // namespace
}  // namespace folio::infer::kernels
