// Tests modules/rope.h: the properties of RoPE (properties/rope_properties.h), the precision of its cache, and errors.
#include "modules/rope.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/modules/properties/rope_properties.h"
#include "tests/modules/support.h"

namespace folio::test {
namespace {

constexpr int64_t kContext = kRopeContext;

INSTANTIATE_TYPED_TEST_SUITE_P(Ours, Rope, nn::RopeCache);

TEST(RopeCache, FarPositionsKeepFullPrecision) {
  nn::RopeCache rope(1 << 17, 64, 500000.0);
  const auto x = torch::randn({1, 1, 3, 64});
  for (const int64_t t : {1 << 16, (1 << 17) - 1}) {
    const auto y = rope->apply(x, t);
    EXPECT_EQ(y.scalar_type(), torch::kFloat);
    const auto expected = x.to(torch::kDouble).matmul(rotation_matrix(t, 64, 500000.0).t());
    // The tolerance covers the rounding of cosine, sine, two products and a sum. An angle in float would have an error
    // of 2^-8.
    expect_close(y.to(torch::kDouble), expected, 6 * 0x1p-24 * 2 * largest(x));
  }
}

TEST(RopeCache, HalfTypesAreRotatedInFloat) {
  nn::RopeCache rope(kContext, 8);
  const auto x = torch::randn({2, kContext, 3, 8}).to(torch::kBFloat16);
  const auto y = rope->apply(x);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::equal(y, rope->apply(x.to(torch::kFloat)).to(torch::kBFloat16)));
}

TEST(RopeCache, InputsOfEveryTypeShareOneCache) {
  const nn::RopeCacheImpl rope(kContext, 8);  // const, since layers share it, possibly on several threads
  const auto x = randn({2, kContext, 3, 8});
  const auto in_double = rope.apply(x);
  EXPECT_EQ(rope.apply(x.to(torch::kFloat)).scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::equal(rope.apply(x), in_double));
  EXPECT_EQ(rope.rotations().scalar_type(), torch::kComplexDouble);
}

TEST(RopeCache, ReadsTransposedInputs) {
  nn::RopeCache rope(kContext, 4);
  const auto x = randn({2, 4, 3, 5}).permute({0, 3, 2, 1});
  EXPECT_TRUE(torch::equal(rope->apply(x), rope->apply(x.contiguous())));
}

TEST(RopeCache, RejectsOtherSizesAndPositions) {
  expect_error([] { nn::RopeCache(8, 5); }, {"even", "5"});
  expect_error([] { nn::RopeCache(0, 4); }, {"context_length", "0"});
  expect_error([] { nn::RopeCache(8, 4, -1.0); }, {"theta", "-1"});
  nn::RopeCache rope(8, 4);
  expect_error([&] { static_cast<void>(rope->apply(torch::zeros({1, 9, 2, 4}))); }, {"[0, 8)", "[0, 9)"});
  expect_error([&] { static_cast<void>(rope->apply(torch::zeros({1, 4, 2, 4}), 5)); }, {"[0, 8)", "[5, 9)"});
  expect_error([&] { static_cast<void>(rope->apply(torch::zeros({1, 4, 2, 4}), -1)); }, {"[0, 8)", "[-1, 3)"});
  expect_error(
      [&] {
        static_cast<void>(rope->apply(torch::zeros({1, 4, 2, 6})));
      },
      {"[B, T, heads, 4]", "Float [1, 4, 2, 6]"});
  expect_error(
      [&] {
        static_cast<void>(rope->apply(torch::zeros({1, 4, 4})));
      },
      {"[B, T, heads, 4]", "Float [1, 4, 4]"});
}

}  // namespace
}  // namespace folio::test
