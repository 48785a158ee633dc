// Tests of Q8_0 quantization: scale, rounding, zeros, and the dot product of two blocks.
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

Floats block_of(Floats first) {
  Floats x(kQ8Block, 0.0F);
  std::copy(first.begin(), first.end(), x.begin());
  return x;
}

TEST(Q80, TheLargestNumberIs127) {
  const Q8Block b = quantize(block_of({254.0F, 1.0F}));
  expect_close({b.scale}, {2.0F}, 1e-6,
               "The scale is the largest number, 254, divided by 127. 1.98 is a division by 128.");
  expect_close({static_cast<float>(b.q[0])}, {127.0F}, 0.0, "254 / 2.");
}

TEST(Q80, QuantsAreRoundedToTheNearest) {
  const Q8Block b = quantize(block_of({127.0F, 2.7F, -2.7F, 2.2F, -2.2F}));
  expect_close({b.q.begin() + 1, b.q.begin() + 5}, {3.0F, -3.0F, 2.0F, -2.0F}, 0.0,
               "With a scale of 1: 2.7, -2.7, 2.2 and -2.2. 2, -2, … comes from a cast, which cuts off; and 3, -2, … "
               "from adding "
               "0.5 before a cast, which rounds negative numbers wrongly.");
}

TEST(Q80, TheSignDoesNotMatterForTheScale) {
  const Q8Block b = quantize(block_of({1.0F, -254.0F}));
  expect_close({b.scale, static_cast<float>(b.q[1])}, {2.0F, -127.0F}, 1e-6,
               "The scale, and the quant of -254. The largest absolute value makes the scale, be it negative or not.");
}

TEST(Q80, ZerosHaveAScaleOfZero) {
  const Q8Block b = quantize(block_of({}));
  expect_close({b.scale, static_cast<float>(b.q[0])}, {0.0F, 0.0F}, 0.0,
               "0 / 0 is NaN, and NaN is no whole number: ask for a largest value of 0 first.");
}

TEST(Q80, AProductUsesBothScales) {
  const Q8Block a = quantize(block_of({127.0F, 1.0F})), b = quantize(block_of({254.0F, 4.0F}));
  expect_close({dot(a, b)}, {127.0F * 254.0F + 4.0F}, 1.0,
               "127 * 254 + 1 * 4 = 32262; the scales are 1 and 2. 16131 is what one scale gives. A number below 256 "
               "comes from a "
               "sum in int8_t, which ends at 127.");
}

TEST(Q80, AProductIsAsGoodAsItsRounding) {
  const Floats x = random_floats(kQ8Block, 1), y = random_floats(kQ8Block, 2);
  double exact = 0.0;
  for (size_t i = 0; i < kQ8Block; ++i) exact += static_cast<double>(x[i]) * y[i];
  // Tolerance: values are below 1, so the scale is at most 1/127, and a value's error is at most half a scale, 1/254.
  const double tolerance = 32.0 * (1.0 / 254.0 + 1.0 / 254.0 + 1.0 / (254.0 * 254.0));
  expect_close({dot(quantize(x), quantize(y))}, {static_cast<float>(exact)}, tolerance,
               "32 random numbers. All of a block count, and each quant with the other block's quant at its place.");
}

}  // namespace
}  // namespace folio::exercises
