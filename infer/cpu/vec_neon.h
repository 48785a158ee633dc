// Implements Vec, the vector of sixteen floats that all vector kernels use, with four NEON registers.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

struct Vec {
  // Maximum number of sums (Vecs) in a product's tile: they use 16 of the 32 registers.
  static constexpr size_t kTileSums = 4;
  // Maximum number of sums (Vecs) that attention keeps in registers, along with the operands that they share.
  static constexpr size_t kMostSums = 4;
  // Maximum numbers of inputs (matmul_panels.h) and of queries (attention_body.h) whose sums fit in registers.
  static constexpr size_t kPanelInputs = 6;
  static constexpr size_t kMostQueries = 4;

  float32x4_t a;  // lanes 0..3
  float32x4_t b;
  float32x4_t c;
  float32x4_t d;

  /// Applies f to lanes 0..3 of all arguments, then to lanes 4..7, and so on.
  template <typename F, typename... V>
  static Vec each(F f, V... v) {
    return {f(v.a...), f(v.b...), f(v.c...), f(v.d...)};
  }

  static Vec zero() { return all(0.0F); }
  static Vec all(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x)}; }
  static Vec load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}; }
  template <typename Half>
  static Vec load(const Half* p) {
    return {widened(p), widened(p + 4), widened(p + 8), widened(p + 12)};
  }
  static Vec load(const uint8_t* p) {
    const uint8x16_t x = vld1q_u8(p);
    const uint16x8_t low = vmovl_u8(vget_low_u8(x));
    const uint16x8_t high = vmovl_u8(vget_high_u8(x));
    return {vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
            vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)))};
  }
  static Vec load(const int8_t* p) {
    const int8x16_t x = vld1q_s8(p);
    const int16x8_t low = vmovl_s8(vget_low_s8(x));
    const int16x8_t high = vmovl_s8(vget_high_s8(x));
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
            vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))};
  }
  static Vec load(const Q8* p) { return load(reinterpret_cast<const int8_t*>(p)); }
  static float32x4_t widened(const F16* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&p->bits))); }
  static float32x4_t widened(const BF16* p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(&p->bits), 16)); }
  /// Loads n elements and zeros the other lanes. Copies the elements first, because NEON has no masked loads.
  template <typename T>
  static Vec load_first(const T* p, size_t n) {
    if (n == kLanes) return load(p);
    T first[kLanes] = {};
    std::copy_n(p, n, first);
    return load(first);
  }
  void store(float* p) const {
    vst1q_f32(p, a);
    vst1q_f32(p + 4, b);
    vst1q_f32(p + 8, c);
    vst1q_f32(p + 12, d);
  }
  /// Stores the lanes as F16, rounded to nearest, ties to even.
  void store(F16* p) const {
    const auto narrowed = [](float32x4_t x) { return vreinterpret_u16_f16(vcvt_f16_f32(x)); };
    vst1_u16(&p[0].bits, narrowed(a));
    vst1_u16(&p[4].bits, narrowed(b));
    vst1_u16(&p[8].bits, narrowed(c));
    vst1_u16(&p[12].bits, narrowed(d));
  }
  template <typename T>
  void store_first(T* p, size_t n) const {
    if (n == kLanes) return store(p);
    T all[kLanes];
    store(all);
    std::copy_n(all, n, p);
  }
  /// Returns a vector whose first n lanes are those of *this and whose other lanes are those of `rest`.
  [[nodiscard]] Vec first_or(size_t n, Vec rest) const {
    alignas(64) static constexpr uint32_t kLane[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const auto mask = [&](size_t lane) {
      return vcltq_u32(vld1q_u32(kLane + lane), vdupq_n_u32(static_cast<uint32_t>(n)));
    };
    return {vbslq_f32(mask(0), a, rest.a), vbslq_f32(mask(4), b, rest.b), vbslq_f32(mask(8), c, rest.c),
            vbslq_f32(mask(12), d, rest.d)};
  }

  friend Vec operator+(Vec x, Vec y) { return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d}; }
  friend Vec operator-(Vec x, Vec y) { return {x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d}; }
  friend Vec operator*(Vec x, Vec y) { return {x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d}; }
  friend Vec operator/(Vec x, Vec y) { return {x.a / y.a, x.b / y.b, x.c / y.c, x.d / y.d}; }
  /// Returns x * y + z, rounded once.
  static Vec fma(Vec x, Vec y, Vec z) {
    return each([](auto i, auto j, auto k) { return vfmaq_f32(k, i, j); }, x, y, z);
  }
  /// Returns the larger of x and y, or y if either is NaN, as on x86. NEON's own maximum would return NaN.
  static Vec max(Vec x, Vec y) {
    return each([](auto i, auto j) { return vbslq_f32(vcgtq_f32(i, j), i, j); }, x, y);
  }
  static Vec min(Vec x, Vec y) {
    return each([](auto i, auto j) { return vbslq_f32(vcltq_f32(i, j), i, j); }, x, y);
  }
  /// Rounds to the nearest integer, ties to even.
  static Vec round(Vec x) {
    return each([](auto i) { return vrndnq_f32(i); }, x);
  }
  /// Returns 2^n for integers n in [-126, 127].
  static Vec power_of_two(Vec n) {
    const auto four = [](float32x4_t x) {
      return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(x), vdupq_n_s32(127)), 23));
    };
    return each(four, n);
  }
  /// Swaps lanes 2i and 2i + 1.
  [[nodiscard]] Vec swap_pairs() const {
    return each([](auto i) { return vrev64q_f32(i); }, *this);
  }
  /// Returns the largest lane, ignoring NaN as the reference does.
  [[nodiscard]] float largest() const { return vmaxnmvq_f32(vmaxnmq_f32(vmaxnmq_f32(a, b), vmaxnmq_f32(c, d))); }

  /// Transposes 16 × 16: lane r of columns[c] becomes lane c of rows[r].
  static void transpose(const Vec* rows, Vec* columns) {
    const auto four_by_four = [&](size_t first_row, float32x4_t Vec::*in, size_t first_column, float32x4_t Vec::*out) {
      const auto pairs = [](float32x4_t v) { return vreinterpretq_f64_f32(v); };
      const float32x4_t w = rows[first_row].*in, x = rows[first_row + 1].*in;
      const float32x4_t y = rows[first_row + 2].*in, z = rows[first_row + 3].*in;
      const float64x2_t even_wx = pairs(vtrn1q_f32(w, x)), odd_wx = pairs(vtrn2q_f32(w, x));
      const float64x2_t even_yz = pairs(vtrn1q_f32(y, z)), odd_yz = pairs(vtrn2q_f32(y, z));
      columns[first_column].*out = vreinterpretq_f32_f64(vzip1q_f64(even_wx, even_yz));
      columns[first_column + 1].*out = vreinterpretq_f32_f64(vzip1q_f64(odd_wx, odd_yz));
      columns[first_column + 2].*out = vreinterpretq_f32_f64(vzip2q_f64(even_wx, even_yz));
      columns[first_column + 3].*out = vreinterpretq_f32_f64(vzip2q_f64(odd_wx, odd_yz));
    };
    constexpr float32x4_t Vec::*kFours[] = {&Vec::a, &Vec::b, &Vec::c, &Vec::d};
    for (size_t i = 0; i < 4; ++i) {
      for (size_t j = 0; j < 4; ++j) four_by_four(4 * i, kFours[j], 4 * j, kFours[i]);
    }
  }

  /// Returns in lane i the sum of the lanes of s[i], in the order of reference/kernels.h.
  static Vec join_lanes(const Vec (&s)[16]) {
    const auto by_8_and_4 = [](Vec x) { return (x.a + x.c) + (x.b + x.d); };
    const auto by_2 = [](float32x4_t x, float32x4_t y) {
      const auto pairs = [](float32x4_t v) { return vreinterpretq_f64_f32(v); };
      return vreinterpretq_f32_f64(vzip1q_f64(pairs(x), pairs(y))) +
             vreinterpretq_f32_f64(vzip2q_f64(pairs(x), pairs(y)));
    };
    // by_2() and vpaddq add pairs of lanes and interleave the results, so lane j of four(i) is the sum of s[i + j].
    const auto four = [&](size_t i) {
      return vpaddq_f32(by_2(by_8_and_4(s[i]), by_8_and_4(s[i + 1])), by_2(by_8_and_4(s[i + 2]), by_8_and_4(s[i + 3])));
    };
    return {four(0), four(4), four(8), four(12)};
  }
};

}  // namespace
}  // namespace folio::infer::kernels
