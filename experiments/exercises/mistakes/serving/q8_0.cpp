// The mistakes, each with the test that must fail first and words of its message:
//     by_128: TheLargestNumberIs127: a division by 128
//     one_too_many: TheLargestNumberIs127: reads past the end of an array
//     no_absolute: TheSignDoesNotMatterForTheScale: absolute value
//     cut_off: QuantsAreRoundedToTheNearest: is 2, but
//     half_added: QuantsAreRoundedToTheNearest: rounds negative numbers wrongly
//     zero_by_zero: ZerosHaveAScaleOfZero: outside the range of representable values
//     one_scale: AProductUsesBothScales: is 16131, but
//     sum_of_bytes: AProductUsesBothScales: a sum in int8_t
//     in_reverse: AProductIsAsGoodAsItsRounding: at its place
#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

Q8Block quantize(const Floats& x) {
  float largest = 0.0F;
  const size_t n = wrong("one_too_many") ? kQ8Block + 1 : kQ8Block;
  for (size_t i = 0; i < n; ++i)
    largest = std::max(largest, wrong("no_absolute") ? x.data()[i] : std::abs(x.data()[i]));
  Q8Block block{.scale = largest / (wrong("by_128") ? 128.0F : 127.0F), .q = {}};
  if (largest == 0.0F && !wrong("zero_by_zero")) return block;
  for (size_t i = 0; i < kQ8Block; ++i) {
    const float exact = std::clamp(x[i] / block.scale, -127.0F, 127.0F);
    block.q[i] = static_cast<int8_t>(wrong("cut_off") ? exact : wrong("half_added") ? exact + 0.5F : std::round(exact));
  }
  return block;
}

float dot(const Q8Block& a, const Q8Block& b) {
  // The earlier tests must not detect "in_reverse". Their blocks end with 0, so a block that ends with 0 is not
  // reversed.
  const bool reverse = wrong("in_reverse") && a.q.back() != 0;
  int32_t sum = 0;
  int8_t small = 0;
  for (size_t i = 0; i < kQ8Block; ++i) {
    const int32_t product = a.q[i] * b.q[reverse ? kQ8Block - 1 - i : i];
    sum += product;
    small = static_cast<int8_t>(small + product);
  }
  return a.scale * (wrong("one_scale") ? 1.0F : b.scale) * static_cast<float>(wrong("sum_of_bytes") ? small : sum);
}

}  // namespace folio::exercises
