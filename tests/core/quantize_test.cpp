// Tests core/quantize.h: blocks equal llama.cpp's (golden blocks made by tests/interop/golden_blocks.py), values round
// to the nearest that their block can represent, and values that no block can represent are rejected.
#include "core/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/formats/safetensors.h"
#include "core/quants.h"
#include "core/random.h"
#include "tests/core/support.h"

namespace folio::core {
namespace {

constexpr std::array kWritten{DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0,
                              DType::Q5_1, DType::Q4_K, DType::Q5_K, DType::Q6_K};

// Returns n values distributed like weights: sums of 12 uniform values, with a different scale for each row of 256.
std::vector<float> bell_shaped(size_t n, uint64_t seed) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    float sum = -6.0F;
    for (size_t j = 0; j < 12; ++j) sum += static_cast<float>(random_uniform(seed, 12 * i + j));
    values[i] = sum * std::ldexp(0.02F, static_cast<int>(i / 256 % 5));
  }
  return values;
}

double rms_error(DType type, const std::vector<float>& values) {
  std::vector<float> back(values.size());
  dequantize(type, quantize(type, values, "w"), back);
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += std::pow(double{values[i]} - back[i], 2);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(Quantize, BlocksMatchLlamaCpp) {
  const SafetensorsFile golden(FOLIO_GOLDEN_BLOCKS);
  const std::span<const float> values = golden.find_tensor("values")->floats();
  ASSERT_EQ(values.size(), 32U * 256);
  for (const DType type : kWritten) {
    if (type == DType::Q4_0 || type == DType::Q4_1) continue;  // quants_oracle_test.py tests these types
    const TensorView* expected = golden.find_tensor(std::string(info(type).name));
    ASSERT_NE(expected, nullptr) << info(type).name;
    const std::vector<std::byte> blocks = quantize(type, values, "w");
    ASSERT_EQ(blocks.size(), expected->bytes.size()) << info(type).name;
    for (size_t i = 0; i < blocks.size(); ++i) {
      ASSERT_EQ(blocks[i], expected->bytes[i]) << info(type).name << " byte " << i;
    }
  }
}

// The nearest level of a group's grid is at most half a step away, unless the value is beyond the last level.
TEST(Quantize, ValuesRoundToTheNearestLevel) {
  const std::vector<float> values = bell_shaped(40 * 256, 3);
  for (const DType type : kWritten) {
    const QuantInfo& q = *quant_info(type);
    std::vector<uint8_t> quants(values.size());
    std::vector<float> scales(values.size() / q.group);
    std::vector<float> minimums(q.minimums ? scales.size() : 0);
    unpack(type, quantize(type, values, "w"), quants, scales, minimums);
    const int32_t lowest = type == DType::Q8_0 ? 1 : 0;  // quants are stored + 128, and -128 is never written
    const int32_t highest = static_cast<int32_t>(1U << q.bits) - 1;
    for (size_t i = 0; i < values.size(); ++i) {
      const float scale = scales[i / q.group];
      if (scale == 0.0F) continue;
      const double offset = q.minimums ? minimums[i / q.group] : 0.0;
      const double level = (values[i] - offset) / scale + q.zero_point;
      // Types without byte scales choose levels before scale and minimum are rounded to half precision.
      const double slack = q.byte_scales ? 1e-4 : 2 * highest * 0x1p-11;
      const double apart = std::abs(level - quants[i]);
      const bool beyond = (quants[i] == highest && level > highest) || (quants[i] == lowest && level < lowest);
      ASSERT_TRUE(apart <= 0.5 + slack || beyond) << info(type).name << " number " << i << " " << level;
    }
  }
}

// With 4 or 5 bits, the step between levels is the range divided by 15 or 31. The error is proportional to the step.
TEST(Quantize, OneMoreBitHalvesTheError) {
  const std::vector<float> values = bell_shaped(400 * 256, 5);
  EXPECT_NEAR(rms_error(DType::Q4_1, values) / rms_error(DType::Q5_1, values), 31.0 / 15, 0.05);
  // The K types also clamp outliers if that lowers the total error, so their ratio is less exact.
  EXPECT_NEAR(rms_error(DType::Q4_K, values) / rms_error(DType::Q5_K, values), 31.0 / 15, 0.15);
  EXPECT_LT(rms_error(DType::Q4_K, values), rms_error(DType::Q4_0, values));
  EXPECT_LT(rms_error(DType::Q6_K, values), rms_error(DType::Q5_K, values));
}

TEST(Quantize, ZerosStayZeros) {
  const std::vector<float> zeros(512);
  for (const DType type : kWritten) {
    std::vector<float> back(512, 1.0F);
    dequantize(type, quantize(type, zeros, "w"), back);
    EXPECT_EQ(back, zeros) << info(type).name;
  }
}

TEST(Quantize, RejectsUnrepresentableValuesByName) {
  std::vector<float> values(256, 1.0F);
  for (const DType type : kWritten) {
    const std::string name(info(type).name);
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      values[77] = bad;
      EXPECT_ERROR(quantize(type, values, "w"), "tensor w contains");
    }
    for (const float large : {-1e10F, 1e10F, 1e16F, 1e18F, 1e25F, 3e38F}) {
      values[77] = large;
      EXPECT_ERROR(quantize(type, values, "w"), "too large for the scales of " + name);
    }
  }
  values[77] = 1.0F;
  EXPECT_ERROR(quantize(DType::Q4_K, std::span(values).first(128), "w"),
               "128 elements, which is not a multiple of the block size 256");
  EXPECT_ERROR(quantize(DType::Q3_K, values, "w"), "tensor w cannot be written as Q3_K");
}

}  // namespace
}  // namespace folio::core
