// Tests core/quants.h: unpacked groups have the values of their blocks, and sizes are checked. quants_oracle_test.py
// compares the values themselves with the gguf package.
#include "core/quants.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/float16.h"
#include "core/quantize.h"
#include "core/random.h"
#include "tests/core/support.h"

namespace folio::core {
namespace {

constexpr std::array kTypes{DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1,
                            DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::MXFP4};

// Returns random blocks, whose scales may be any F16 values.
std::vector<std::byte> random_blocks(DType type, size_t n, uint64_t seed) {
  std::vector<std::byte> blocks(n * info(type).block_bytes);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(random_below(seed, i, 256));
  return blocks;
}

TEST(Quants, UnpackedGroupsMatchDequantization) {
  for (const DType type : kTypes) {
    const QuantInfo& q = *quant_info(type);
    const auto blocks = random_blocks(type, 40, 7);
    const size_t n = 40 * info(type).block_elements;
    std::vector<uint8_t> quants(n);
    std::vector<float> scales(n / q.group);
    std::vector<float> minimums(q.minimums ? n / q.group : 0);
    std::vector<float> values(n);
    unpack(type, blocks, quants, scales, minimums);
    dequantize(type, blocks, values);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_LT(quants[i], 1U << (q.fp4 ? 5 : q.bits)) << info(type).name;
      float expected = scales[i / q.group] * static_cast<float>(static_cast<int32_t>(quants[i]) - q.zero_point);
      if (q.minimums) expected += minimums[i / q.group];
      if (std::isnan(expected) && std::isnan(values[i])) continue;
      ASSERT_EQ(values[i], expected) << info(type).name << " number " << i;
    }
    if (q.byte_scales) continue;
    for (const float scale : scales) {
      const float stored = f16_to_float(float_to_f16(scale));
      EXPECT_EQ(std::bit_cast<uint32_t>(stored), std::bit_cast<uint32_t>(scale)) << "kept in half precision";
    }
  }
}

TEST(Quants, OtherTypesHaveNoGroups) {
  for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q2_K, DType::Q3_K, DType::Q8_K, DType::I8}) {
    EXPECT_EQ(quant_info(type), nullptr) << info(type).name;
    std::vector<float> values(256);
    const std::vector<std::byte> blocks(info(type).block_bytes);
    EXPECT_ERROR(dequantize(type, blocks, values), std::string(info(type).name) + " is not a supported block type");
  }
}

TEST(Quants, RejectsMismatchedSizes) {
  std::vector<float> values(64);
  std::vector<std::byte> blocks(36);
  EXPECT_NO_THROW(dequantize(DType::Q4_0, blocks, values));
  EXPECT_ERROR(dequantize(DType::Q4_0, std::span(blocks).first(35), values), "35 bytes of Q4_0");
  EXPECT_ERROR(dequantize(DType::Q4_0, blocks, std::span(values).first(63)), "the blocks of 63 values");
  std::vector<uint8_t> quants(64);
  EXPECT_ERROR(unpack(DType::Q4_0, blocks, quants, std::span(values).first(2), std::span(values).first(2)),
               "2 scales and 2 minimums");
  EXPECT_ERROR(quantize(DType::Q8_0, std::span(values).first(40), "w"),
               "tensor w has 40 elements, which is not a multiple");
}

}  // namespace
}  // namespace folio::core
