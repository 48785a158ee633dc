// Tests core/quants.h: unpacked groups have the values of their blocks, sizes are checked, and quantizing a dequantized
// block gives the same block.
#include "core/quants.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

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

// An MXFP4 element (E2M1) has a sign, two bits of exponent and one of mantissa. The scale (E8M0) is 2^(byte - 127). In
// GGUF the low nibbles of a block's bytes are its first sixteen elements.
TEST(Quants, Mxfp4MatchesTheFormula) {
  for (int scale = 0; scale < 253; ++scale) {  // from 253 on, 6 * scale would be infinite
    std::vector<std::byte> block(17);
    block[0] = static_cast<std::byte>(scale);
    for (size_t i = 0; i < 16; ++i) block[1 + i] = static_cast<std::byte>(i | (15 - i) << 4U);
    std::vector<float> values(32);
    dequantize(DType::MXFP4, block, values);
    for (int i = 0; i < 32; ++i) {
      const int bits = i < 16 ? i : 31 - i;
      const int exponent = bits >> 1 & 3, mantissa = bits & 1;
      const double magnitude = exponent == 0 ? mantissa / 2.0 : std::ldexp(1.0 + mantissa / 2.0, exponent - 1);
      const double expected = std::ldexp(bits < 8 ? magnitude : -magnitude, scale - 127);
      ASSERT_EQ(static_cast<double>(values[static_cast<size_t>(i)]), expected)
          << "scale " << scale << ", bits " << bits;
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

// Dequantized values are on the block's grid, so quantizing them again loses nothing, provided that the block uses both
// ends of the grid: otherwise the new scale would be smaller.
TEST(Quants, RequantizingADequantizedBlockIsExact) {
  for (const DType type : {DType::Q8_0, DType::Q4_0, DType::Q4_1}) {
    const DTypeInfo& t = info(type);
    auto blocks = random_blocks(type, 200, 11);
    for (size_t b = 0; b < 200; ++b) {
      std::byte* block = blocks.data() + b * t.block_bytes;
      const uint16_t scale = float_to_f16(std::ldexp(1.0F, static_cast<int>(b % 8) - 4));
      const uint16_t minimum = float_to_f16(static_cast<float>(b) - 100.0F);
      std::memcpy(block, &scale, sizeof scale);
      if (type == DType::Q4_1) std::memcpy(block + 2, &minimum, sizeof minimum);
      if (type == DType::Q8_0) {
        for (size_t i = 2; i < t.block_bytes; ++i) {
          if (block[i] == std::byte{0x80}) block[i] = std::byte{0x81};  // quantize() never writes -128
        }
      }
      block[t.block_bytes - 1] = type == DType::Q8_0 ? std::byte{127} : std::byte{0x0F};  // both ends of the grid
    }
    std::vector<float> values(200 * 32);
    dequantize(type, blocks, values);
    EXPECT_EQ(quantize(type, values, "w"), blocks) << t.name;
  }
}

}  // namespace
}  // namespace folio::core
