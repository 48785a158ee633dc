// Tests core/checked.h: checked arithmetic on integers returns the exact result, or nothing if it overflows.
#include "core/checked.h"

#include <gtest/gtest.h>

#include <vector>

namespace folio::core {
namespace {

constexpr uint64_t kMax = UINT64_MAX;

TEST(Checked, MulReturnsNulloptOnOverflow) {
  EXPECT_EQ(checked_mul(0, kMax), 0U);
  EXPECT_EQ(checked_mul(1, kMax), kMax);
  EXPECT_EQ(checked_mul(0xFFFFFFFF, 0x100000001), kMax);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32U, uint64_t{1} << 32U), std::nullopt);
  EXPECT_EQ(checked_mul(2, kMax / 2 + 1), std::nullopt);
}

TEST(Checked, AddReturnsNulloptOnOverflow) {
  EXPECT_EQ(checked_add(0, kMax), kMax);
  EXPECT_EQ(checked_add(kMax - 7, 7), kMax);
  EXPECT_EQ(checked_add(kMax - 7, 8), std::nullopt);
  EXPECT_EQ(checked_add(kMax, kMax), std::nullopt);
}

TEST(Checked, EmptyProductIsOne) { EXPECT_EQ(checked_product({}), 1U); }

TEST(Checked, ProductRejectsNegativesAndOverflow) {
  const auto product = [](std::vector<int64_t> dimensions) { return checked_product(dimensions); };
  EXPECT_EQ(product({3, 5, 7}), 105U);
  EXPECT_EQ(product({3, 0, 7}), 0U);
  EXPECT_EQ(product({-1}), std::nullopt);
  EXPECT_EQ(product({0, -1}), std::nullopt);
  EXPECT_EQ(product({-2, -3}), std::nullopt);
  EXPECT_EQ(product({INT64_MAX, 2}), kMax - 1);
  EXPECT_EQ(product({INT64_MAX, 3}), std::nullopt);
  EXPECT_EQ(product({int64_t{1} << 32U, int64_t{1} << 32U}), std::nullopt);
}

TEST(Checked, AlignRoundsUpToTheNextMultiple) {
  for (uint64_t alignment = 1; alignment <= 128; alignment *= 2) {
    for (uint64_t offset = 0; offset <= 300; ++offset) {
      const auto aligned = checked_align(offset, alignment);
      ASSERT_TRUE(aligned.has_value());
      EXPECT_EQ(*aligned % alignment, 0U);
      EXPECT_GE(*aligned, offset);
      EXPECT_LT(*aligned - offset, alignment);
    }
  }
}

TEST(Checked, AlignReturnsNulloptOnOverflow) {
  EXPECT_EQ(checked_align(kMax, 1), kMax);
  EXPECT_EQ(checked_align(kMax - 63, 64), kMax - 63);
  EXPECT_EQ(checked_align(kMax - 62, 64), std::nullopt);
  EXPECT_EQ(checked_align(kMax, 64), std::nullopt);
}

}  // namespace
}  // namespace folio::core
