// Tests the kernels that round keys and values for the KV cache, to F16 as core/float16.h does and to 8 bits: each
// instruction set gives the reference's bytes at every length and alignment. In 8 bits, errors are at most half a step,
// and a value that is not finite makes its whole group NaN.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/float16.h"
#include "infer/reference/kernels.h"
#include "tests/infer/cpu/guarded_buffer.h"
#include "tests/infer/support.h"

namespace folio::infer::kernels {
namespace {

using test::Buffer;
using test::Guarded;
using test::kNaN;
using test::kPageEnd;
using test::random_floats;

class CacheTypes : public ::testing::TestWithParam<core::Isa> {
 protected:
  // Compares both kernels with the reference. `place` selects the misalignments of the buffers.
  void check(std::span<const float> x, size_t place) {
    const size_t n_groups = q8_groups(x.size());
    Buffer in(x, place);
    Guarded<Q8> quants(x.size(), Q8{99}, (place * 7 + 2) % 10);
    Guarded<F16> scales(n_groups, F16{99}, (place * 3 + 1) % 10);
    Guarded<F16> halves(x.size(), F16{99}, (place * 7 + 2) % 10);
    kernels_for(GetParam()).to_q8(in.data(), x.size(), quants.data(), scales.data());
    kernels_for(GetParam()).to_f16(in.data(), x.size(), halves.data());
    std::vector<Q8> expected(x.size());
    std::vector<F16> expected_scales(n_groups), expected_halves(x.size());
    reference_kernels().to_q8(x.data(), x.size(), expected.data(), expected_scales.data());
    reference_kernels().to_f16(x.data(), x.size(), expected_halves.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(quants.values()[i].quant, expected[i].quant) << i << ": " << x[i];
      ASSERT_EQ(halves.values()[i].bits, expected_halves[i].bits) << i << ": " << x[i];
    }
    for (size_t g = 0; g < n_groups; ++g) ASSERT_EQ(scales.values()[g].bits, expected_scales[g].bits) << g;
    ASSERT_TRUE(quants.guards_hold() && scales.guards_hold() && halves.guards_hold()) << x.size() << " at " << place;
  }
};

INSTANTIATE_TEST_SUITE_P(Isa, CacheTypes, ::testing::ValuesIn(kernels::isas_with_kernels()),
                         ::testing::PrintToStringParamName());

TEST_P(CacheTypes, GiveTheReferencesBytesAtEveryLength) {
  for (size_t n = 0; n <= 3 * kQ8Group + 1; ++n) {
    for (size_t place = 0; place <= kPageEnd; ++place) {
      check(random_floats(n, n, 3.0), place);
      if (HasFatalFailure()) return;
    }
  }
}

// Tests magnitudes whose scale is 0, subnormal in F16, normal, or too large for F16.
TEST_P(CacheTypes, GiveTheReferencesBytesAtEveryMagnitude) {
  for (int exponent = -150; exponent <= 128; ++exponent) {
    auto x = random_floats(kQ8Group, static_cast<uint64_t>(exponent + 200), 1.0);
    for (float& v : x) v = std::ldexp(v, exponent);
    check(x, 0);
    if (HasFatalFailure()) return;
  }
}

// A value halfway between two quants rounds to the even one.
TEST_P(CacheTypes, GiveTheReferencesBytesForTies) {
  std::vector<float> x{127.0F};  // makes the scale 1, so that the other values are ties
  for (int i = 0; i < 31; ++i) x.push_back(static_cast<float>(i) - 15.5F);
  check(x, 0);
}

TEST_P(CacheTypes, GiveTheReferencesBytesForNonFiniteValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kNaN, -kNaN, kInfinity, -kInfinity, std::numeric_limits<float>::signaling_NaN(), 8.4e6F}) {
    for (size_t at = 0; at < 40; ++at) {
      auto x = random_floats(40, at);
      x[at] = bad;
      x[(at + 7) % 40] = at % 2 == 0 ? kInfinity : 1.0F;
      check(x, at % 10);
      if (HasFatalFailure()) return;
    }
  }
}

// Returns the floats at which rounding to F16 changes: each F16 value, the midpoints between neighbors, the floats
// next to these, and floats beyond F16's range. Rounding is monotone, so if these round correctly, all floats do.
std::vector<float> borders_of_f16() {
  std::vector<float> x{65519.996F,
                       65520.0F,
                       65536.0F,
                       std::numeric_limits<float>::max(),
                       std::numeric_limits<float>::denorm_min(),
                       std::numeric_limits<float>::infinity()};
  const auto add_with_neighbours = [&](float v) {
    x.insert(x.end(), {std::nextafter(v, -1.0F), v, std::nextafter(v, 1e30F)});
  };
  for (uint16_t bits = 0; bits < 0x7C00; ++bits) {
    const float number = core::f16_to_float(bits);
    const float next = bits == 0x7BFF ? 65536.0F : core::f16_to_float(bits + 1);
    add_with_neighbours(number);
    add_with_neighbours(number + (next - number) / 2);  // exact: needs a 12-bit mantissa
  }
  const size_t positive = x.size();
  for (size_t i = 0; i < positive; ++i) x.push_back(-x[i]);
  return x;
}

TEST_P(CacheTypes, F16RoundsToTheNearestValue) {
  const auto x = borders_of_f16();
  std::vector<F16> got(x.size());
  kernels_for(GetParam()).to_f16(x.data(), x.size(), got.data());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(got[i].bits, core::float_to_f16(x[i])) << x[i];
}

// Tests NaNs with each pattern of the mantissa's upper ten bits, which F16 keeps, and none, one or all of its lower 13
// bits set.
TEST_P(CacheTypes, F16KeepsNaNsAndMakesThemQuiet) {
  for (uint32_t upper = 0; upper < 0x400; ++upper) {
    for (const uint32_t lower : {0U, 1U, 0x1FFFU}) {
      if (upper == 0 && lower == 0) continue;  // infinity
      for (const uint32_t sign : {0U, 1U}) {
        const auto x = std::bit_cast<float>(sign << 31U | 0x7F800000U | upper << 13U | lower);
        F16 got{};
        kernels_for(GetParam()).to_f16(&x, 1, &got);
        ASSERT_EQ(got.bits, sign << 15U | 0x7E00U | upper) << upper << " " << lower;
      }
    }
  }
}

// The scale is rounded to 11 bits, so the largest value may be 127.06 steps, which is clamped to 127.
TEST(ReferenceToQ8, ErrorIsAtMostHalfAStep) {
  for (const size_t n : {1, 2, 31, 32, 33, 64, 80}) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      auto x = random_floats(n, seed, 0.5);
      for (size_t first = 0; first < n; first += kQ8Group) x[first] = 0.4F;  // gives a scale that F16 must round
      std::vector<Q8> quants(n);
      std::vector<F16> scales(q8_groups(n));
      reference_kernels().to_q8(x.data(), n, quants.data(), scales.data());
      for (size_t first = 0; first < n; first += kQ8Group) {
        const float scale = core::f16_to_float(scales[first / kQ8Group].bits);
        float largest = 0.0F;
        for (size_t i = first; i < std::min(n, first + kQ8Group); ++i) {
          largest = std::max(largest, std::abs(x[i]));
          ASSERT_NEAR(scale * static_cast<float>(quants[i].quant), x[i], scale * (0.5F + 127 * 0x1p-22F)) << i;
        }
        ASSERT_NEAR(scale, largest / 127, largest / 127 * 0x1p-11F);
      }
    }
  }
}

TEST(ReferenceToQ8, NonFiniteValuesSpreadToTheWholeGroup) {
  for (const float bad : {kNaN, std::numeric_limits<float>::infinity(), 8.4e6F}) {
    auto x = random_floats(2 * kQ8Group, 1);
    x[5] = bad;
    std::vector<Q8> quants(x.size());
    std::vector<F16> scales(2);
    reference_kernels().to_q8(x.data(), x.size(), quants.data(), scales.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const float wide = core::f16_to_float(scales[i / kQ8Group].bits) * static_cast<float>(quants[i].quant);
      EXPECT_EQ(std::isnan(wide), i < kQ8Group) << i;
    }
  }
}

}  // namespace
}  // namespace folio::infer::kernels
