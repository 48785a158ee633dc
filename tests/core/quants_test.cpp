// Tests core/quants.h: types and sizes are checked. quants_oracle_test.py compares dequantized values with those of the
// gguf package. tests/infer/cpu/groups_test.cpp compares repacked weights with dequantized values.
#include "core/quants.h"

#include <gtest/gtest.h>

#include "core/quantize.h"
#include "tests/core/support.h"

namespace folio::core {
namespace {

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
