// Tests infer/forward/eight_bits.h: quantizing values that were sent in 8 bits gives the same integers and scale as
// quantizing the original values.
#include "infer/forward/eight_bits.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "core/random.h"
#include "infer/reference/kernels.h"
#include "infer/reference/reference.h"

namespace folio::infer {
namespace {

using Group = std::array<float, kEightBitsGroup>;

struct Quantized {
  std::array<int8_t, kEightBitsGroup> values;
  uint32_t scale;  ///< the float's bits, so that NaNs can be compared
  friend bool operator==(const Quantized&, const Quantized&) = default;
};

Quantized quantized(const Group& group) {
  Quantized out{};
  float scale = 0.0F, scaled_sum = 0.0F;
  std::array<int32_t, 3> sums{};
  kernels::reference::quantize(
      group.data(), 1, group.size(),
      {.values = out.values.data(), .scales = &scale, .scaled_sums = &scaled_sum, .sums = sums.data()});
  out.scale = std::bit_cast<uint32_t>(scale);
  return out;
}

void expect_same(const Group& group) {
  Group sent{};
  from_eight_bits(to_eight_bits(group), sent);
  EXPECT_EQ(quantized(sent), quantized(group)) << "of a group that begins with " << group[0];
}

TEST(EightBits, MatchTheReferenceRounding) {
  for (uint64_t g = 0; g < 20000; ++g) {
    const float magnitude = std::ldexp(1.0F, static_cast<int>(core::random_below(1, g, 200)) - 100);
    Group group;
    for (size_t i = 0; i < group.size(); ++i) {
      group[i] = (static_cast<float>(core::random_below(g, i, 1U << 24U)) * 0x1p-23F - 1.0F) * magnitude;
    }
    expect_same(group);
  }
}

TEST(EightBits, MatchTheReferenceRoundingAtExtremes) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float largest :
       {0.0F, -0.0F, 1e-45F, 9.9e-31F, 1e-30F, 1.1e-30F, 127.0F, 1e38F, std::numeric_limits<float>::max(), kInf, -kInf,
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const float part : {0.0F, 0.5F / 127.0F, 1.5F / 127.0F, 0.9999F, 1.0F, -1.0F, 126.5F / 127.0F}) {
      Group group{};
      group[3] = largest;
      group[17] = largest * part;
      expect_same(group);
    }
  }
}

}  // namespace
}  // namespace folio::infer
