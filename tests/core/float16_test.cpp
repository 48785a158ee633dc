// Tests core/float16.h: conversion to float is exact, conversion from float rounds to nearest, ties to even, and a
// conversion to float and back keeps every bit. Expected values are computed in double precision, where each step is
// exact.
#include "core/float16.h"

#include <gtest/gtest.h>

#include <cmath>

namespace folio::core {
namespace {

// A 16-bit floating-point type: its conversions, smallest normal exponent, number of fraction bits, and infinity.
struct Half {
  const char* name;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
  int least_exponent;
  int fraction_bits;
  uint16_t infinity;
  double limit;  ///< the smallest value that overflows to infinity
};
void PrintTo(const Half& half, std::ostream* out) { *out << half.name; }

const Half kHalves[] = {{"F16", f16_to_float, float_to_f16, -14, 10, 0x7C00, 0x1p16},
                        {"BF16", bf16_to_float, float_to_bf16, -126, 7, 0x7F80, 0x1p128}};

class Float16 : public ::testing::TestWithParam<Half> {
 protected:
  // Returns the 16-bit value that is nearest to a finite `value`, with ties to even, or infinity if it overflows.
  // Computes in double precision.
  [[nodiscard]] static double nearest(float value) {
    const Half& half = GetParam();
    if (value == 0.0F) return value;
    const int exponent = std::max(std::ilogb(static_cast<double>(value)), half.least_exponent);
    const double step = std::ldexp(1.0, exponent - half.fraction_bits);
    const double rounded = std::nearbyint(static_cast<double>(value) / step) * step;
    return std::abs(rounded) < half.limit ? rounded : std::copysign(HUGE_VAL, rounded);
  }

  static void expect_nearest(float value) {
    const Half& half = GetParam();
    const float narrowed = half.widen(half.narrow(value));
    ASSERT_EQ(static_cast<double>(narrowed), nearest(value)) << value;
    ASSERT_EQ(std::signbit(narrowed), std::signbit(value)) << value;
  }
};

// Returns the value of a 16-bit number by IEEE 754, computed from its sign, exponent and fraction.
double value_of(uint16_t bits, const Half& half) {
  const int field = (bits & 0x7FFF) >> half.fraction_bits;
  const int fraction = bits & ((1 << half.fraction_bits) - 1);
  const int exponent = field == 0 ? half.least_exponent : field - 1 + half.least_exponent;
  const double significand = std::ldexp(fraction, -half.fraction_bits) + (field == 0 ? 0.0 : 1.0);
  return std::ldexp((bits & 0x8000) != 0 ? -significand : significand, exponent);
}

TEST_P(Float16, WideningMatchesTheFormula) {
  const Half& half = GetParam();
  for (uint32_t h = 0; h <= 0xFFFF; ++h) {
    const auto bits = static_cast<uint16_t>(h);
    const float wide = half.widen(bits);
    const uint16_t magnitude = bits & 0x7FFF;
    ASSERT_EQ(std::signbit(wide), bits >> 15) << h;
    ASSERT_EQ(std::isnan(wide), magnitude > half.infinity) << h;
    ASSERT_EQ(std::isinf(wide), magnitude == half.infinity) << h;
    if (magnitude < half.infinity) {
      ASSERT_EQ(static_cast<double>(wide), value_of(bits, half)) << h;
    }
  }
}

TEST_P(Float16, NarrowingInvertsWideningForAllBitPatterns) {
  const Half& half = GetParam();
  for (uint32_t h = 0; h <= 0xFFFF; ++h) {
    ASSERT_EQ(half.narrow(half.widen(static_cast<uint16_t>(h))), h);
  }
}

TEST_P(Float16, TiesRoundToEven) {
  const Half& half = GetParam();
  for (uint16_t h = 0; h < half.infinity; ++h) {
    const double low = half.widen(h);
    const double high = h + 1 == half.infinity ? half.limit : static_cast<double>(half.widen(h + 1));
    const auto halfway = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(halfway), (low + high) / 2) << "a float holds it";
    const uint16_t even = (h % 2) == 0 ? h : static_cast<uint16_t>(h + 1);
    ASSERT_EQ(half.narrow(halfway), even) << h;
    ASSERT_EQ(half.narrow(-halfway), even | 0x8000) << h;
    for (const float towards : {-HUGE_VALF, HUGE_VALF}) {
      expect_nearest(std::nextafter(halfway, towards));
      expect_nearest(-std::nextafter(halfway, towards));
    }
    expect_nearest(halfway);
  }
}

TEST_P(Float16, FloatsRoundToNearest) {
  constexpr uint32_t kStride = 4999;  // prime, so that the tested patterns vary in every bit
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += kStride) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isfinite(value)) expect_nearest(value);
  }
}

TEST_P(Float16, NanKeepsItsSignForAnyPayload) {
  const Half& half = GetParam();
  for (int bit = 0; bit < 23; ++bit) {
    for (const uint32_t sign : {0U, 0x80000000U}) {
      const auto nan = std::bit_cast<float>(sign | 0x7F800000U | (1U << bit));
      const uint16_t narrowed = half.narrow(nan);
      EXPECT_GT(narrowed & 0x7FFF, half.infinity) << bit;
      EXPECT_EQ(narrowed >> 15, sign >> 31U) << bit;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Float16, ::testing::ValuesIn(kHalves), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace folio::core
