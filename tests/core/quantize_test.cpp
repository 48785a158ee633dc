// Tests core/quantize.h: blocks equal llama.cpp's (golden blocks made by tests/interop/golden_blocks.py), zeros
// stay zeros, and values that no block can represent are rejected.
#include "core/quantize.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "core/formats/safetensors.h"
#include "core/quants.h"
#include "core/weights.h"
#include "tests/core/support.h"

namespace folio::core {
namespace {

constexpr std::array kWritten{DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0,
                              DType::Q5_1, DType::Q4_K, DType::Q5_K, DType::Q6_K};

TEST(Quantize, BlocksMatchLlamaCpp) {
  const SafetensorsFile golden(FOLIO_GOLDEN_BLOCKS);
  const std::vector<float> values = to_floats(*golden.find_tensor("values"));
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
