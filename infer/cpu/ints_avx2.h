// Integer vectors for groups_body.h in pairs of AVX2 registers: 64 quants (Bytes) and sixteen sums (Ints, Dots).
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "infer/cpu/vec_avx2.h"

namespace folio::infer::kernels {
namespace {

/// Maximum number of inputs whose sums fit in registers.
constexpr size_t kMostInputs = 4;

struct Bytes {
  __m256i low;
  __m256i high;

  static Bytes load(const uint8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
  }
  /// Shifts each byte right by kRight (left if negative) and keeps the bits in `mask`.
  template <int kRight>
  [[nodiscard]] Bytes bits(uint8_t mask) const {
    const __m256i m = _mm256_set1_epi8(static_cast<char>(mask));
    const auto shifted = [](__m256i x) {
      if constexpr (kRight > 0) return _mm256_srli_epi16(x, kRight);
      if constexpr (kRight < 0) return _mm256_slli_epi16(x, -kRight);
      return x;
    };
    return {_mm256_and_si256(shifted(low), m), _mm256_and_si256(shifted(high), m)};
  }
  /// Replaces each byte i, i < 16, with table[i].
  [[nodiscard]] Bytes numbers_of(const uint8_t* table) const {
    const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    return {_mm256_shuffle_epi8(t, low), _mm256_shuffle_epi8(t, high)};
  }
  friend Bytes operator|(Bytes a, Bytes b) { return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)}; }
};

struct Ints {
  __m256i low;
  __m256i high;

  /// Multiplies each lane by n, a power of two.
  template <int n>
  [[nodiscard]] Ints times() const {
    constexpr int kShift = std::countr_zero(static_cast<unsigned>(n));
    return {_mm256_slli_epi32(low, kShift), _mm256_slli_epi32(high, kShift)};
  }
  static Ints all(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  [[nodiscard]] Vec to_floats() const { return {_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)}; }
  friend Ints operator+(Ints a, Ints b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
};

/// Sixteen sums of products of kBits-bit quants and inputs. maddubs adds two products in 16 bits; the sums are widened
/// to 32 bits before they could overflow.
template <int kBits>
struct Dots {
  /// True if Weights subtracts the zero point of 128 from 8-bit quants, so that the sum of two products fits in
  /// 16 bits.
  static constexpr bool kSubtractsZeroPoint = kBits == 8;
  /// Quants of sixteen rows and four columns as operands of maddubs, the same for all inputs.
  struct Weights {
    explicit Weights(Bytes w) : unsigned_low(w.low), unsigned_high(w.high) {
      if constexpr (kBits == 8) {
        const __m256i zero_point = _mm256_set1_epi8(static_cast<char>(0x80));
        signed_low = _mm256_xor_si256(w.low, zero_point);
        signed_high = _mm256_xor_si256(w.high, zero_point);
        unsigned_low = _mm256_abs_epi8(signed_low);
        unsigned_high = _mm256_abs_epi8(signed_high);
      }
    }
    __m256i unsigned_low;
    __m256i unsigned_high;
    __m256i signed_low{};
    __m256i signed_high{};
  };

  /// Makes sum() add z * *sum, where z is the zero point and *sum is -Σ x, because Σ (q - z) x = Σ q x - z Σ x.
  void start(const int32_t* sum) { first = sum; }
  /// Adds Σ w[4 l + i] values[i], i < 4, to lane l.
  void add(const Weights& w, const int8_t* values) {
    int32_t four;
    std::memcpy(&four, values, sizeof four);
    const __m256i a = _mm256_set1_epi32(four);
    if constexpr (kBits == 8) {
      low = _mm256_add_epi32(low, widened(_mm256_maddubs_epi16(w.unsigned_low, _mm256_sign_epi8(a, w.signed_low))));
      high = _mm256_add_epi32(high, widened(_mm256_maddubs_epi16(w.unsigned_high, _mm256_sign_epi8(a, w.signed_high))));
    } else {
      low16 = _mm256_add_epi16(low16, _mm256_maddubs_epi16(w.unsigned_low, a));
      high16 = _mm256_add_epi16(high16, _mm256_maddubs_epi16(w.unsigned_high, a));
      if (++n_added == kMostAdded) widen();
    }
  }
  Ints sum() {
    if constexpr (kBits != 8) {
      if (n_added > 0) widen();
      if (first != nullptr) return Ints{low, high} + Ints::all(*first).template times<1 << (kBits - 1)>();
    }
    return {low, high};
  }

 private:
  // Maximum additions before widen(): each adds two products of a quant (up to 15, 31 or 63) and an input (up to 127).
  static constexpr int kMostAdded = 32767 / (((1 << kBits) - 1) * 254);

  static __m256i widened(__m256i x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }
  void widen() {
    low = _mm256_add_epi32(low, widened(low16));
    high = _mm256_add_epi32(high, widened(high16));
    low16 = high16 = _mm256_setzero_si256();
    n_added = 0;
  }

  __m256i low = _mm256_setzero_si256();
  __m256i high = _mm256_setzero_si256();
  __m256i low16 = _mm256_setzero_si256();
  __m256i high16 = _mm256_setzero_si256();
  const int32_t* first = nullptr;
  int n_added = 0;  // additions since widen(); a compile-time constant once the callers' loops are unrolled
};

}  // namespace
}  // namespace folio::infer::kernels
