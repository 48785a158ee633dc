// Integer vectors for groups_body.h in four NEON registers each: 64 quants (Bytes) and sixteen sums (Ints, Dots).
#pragma once

#include <arm_neon.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "infer/cpu/vec_neon.h"

namespace folio::infer::kernels {
namespace {

/// Maximum number of inputs whose sums fit in registers.
constexpr size_t kMostInputs = 4;

struct Bytes {
  uint8x16_t a;  // bytes 0..15
  uint8x16_t b;
  uint8x16_t c;
  uint8x16_t d;

  static Bytes load(const uint8_t* p) { return {vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}; }
  /// Shifts each byte right by kRight (left if negative) and keeps the bits in `mask`.
  template <int kRight>
  [[nodiscard]] Bytes bits(uint8_t mask) const {
    const uint8x16_t m = vdupq_n_u8(mask);
    const auto shifted = [](uint8x16_t x) {
      if constexpr (kRight > 0) return vshrq_n_u8(x, kRight);
      if constexpr (kRight < 0) return vshlq_n_u8(x, -kRight);
      return x;
    };
    return {shifted(a) & m, shifted(b) & m, shifted(c) & m, shifted(d) & m};
  }
  /// Replaces each byte i, i < 16, with table[i].
  [[nodiscard]] Bytes numbers_of(const uint8_t* table) const {
    const uint8x16_t t = vld1q_u8(table);
    return {vqtbl1q_u8(t, a), vqtbl1q_u8(t, b), vqtbl1q_u8(t, c), vqtbl1q_u8(t, d)};
  }
  friend Bytes operator|(Bytes x, Bytes y) { return {x.a | y.a, x.b | y.b, x.c | y.c, x.d | y.d}; }
};

struct Ints {
  int32x4_t a;
  int32x4_t b;
  int32x4_t c;
  int32x4_t d;

  /// Multiplies each lane by n, a power of two.
  template <int n>
  [[nodiscard]] Ints times() const {
    constexpr int kShift = std::countr_zero(static_cast<unsigned>(n));
    return {vshlq_n_s32(a, kShift), vshlq_n_s32(b, kShift), vshlq_n_s32(c, kShift), vshlq_n_s32(d, kShift)};
  }
  static Ints all(int32_t x) { return {vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x)}; }
  [[nodiscard]] Vec to_floats() const {
    return {vcvtq_f32_s32(a), vcvtq_f32_s32(b), vcvtq_f32_s32(c), vcvtq_f32_s32(d)};
  }
  friend Ints operator+(Ints x, Ints y) { return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d}; }
};

/// Sixteen sums of products of kBits-bit quants and inputs. sdot multiplies signed bytes and adds four products in 32
/// bits; usdot, which needs i8mm, multiplies unsigned by signed bytes.
template <int kBits>
struct Dots {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  static constexpr bool kSubtractsZeroPoint = false;
#else
  /// True if Weights subtracts the zero point of 128 from 8-bit quants, which makes them signed bytes.
  static constexpr bool kSubtractsZeroPoint = kBits == 8;
#endif
  /// Quants of sixteen rows and four columns as operands of sdot or usdot, the same for all inputs.
  struct Weights {
    explicit Weights(Bytes w) : bytes(w) {
      if constexpr (kSubtractsZeroPoint) {
        const uint8x16_t zero_point = vdupq_n_u8(0x80);
        bytes = {w.a ^ zero_point, w.b ^ zero_point, w.c ^ zero_point, w.d ^ zero_point};
      }
    }
    Bytes bytes;
  };

  /// Starts the sums at z * *sum, where z is the zero point and *sum is -Σ x, because Σ (q - z) x = Σ q x - z Σ x.
  void start(const int32_t* sum) { sums = Ints::all(*sum).template times<1 << (kBits - 1)>(); }
  /// Adds Σ w[4 l + i] values[i], i < 4, to lane l.
  void add(const Weights& w, const int8_t* values) {
    int32_t four;
    std::memcpy(&four, values, sizeof four);
    const int8x16_t v = vreinterpretq_s8_s32(vdupq_n_s32(four));
    sums = {dot(sums.a, w.bytes.a, v), dot(sums.b, w.bytes.b, v), dot(sums.c, w.bytes.c, v), dot(sums.d, w.bytes.d, v)};
  }
  Ints sum() { return sums; }

 private:
  static int32x4_t dot(int32x4_t sum, uint8x16_t w, int8x16_t v) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
    return vusdotq_s32(sum, w, v);
#else
    return vdotq_s32(sum, vreinterpretq_s8_u8(w), v);
#endif
  }

  Ints sums = Ints::all(0);
};

}  // namespace
}  // namespace folio::infer::kernels
