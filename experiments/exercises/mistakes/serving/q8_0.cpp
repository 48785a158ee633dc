#include <algorithm>
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {
namespace {

enum class Wrong {
  None,
  By128,
  NoAbsolute,
  CutOff,
  HalfAdded,
  ZeroByZero,
  OneScale,
  SumOfBytes,
  InReverse,
  OneTooMany
};
using WrongOf = Wrong();

template <Wrong kWrong>
Wrong is() {
  return kWrong;
}

const std::vector<Mistake<WrongOf>> kMistakes{
    {"by_128", "TheLargestNumberIs127", "a division by 128", is<Wrong::By128>},
    {"one_too_many", "TheLargestNumberIs127", "reads past the end of an array", is<Wrong::OneTooMany>},
    {"no_absolute", "TheSignDoesNotMatterForTheScale", "absolute value", is<Wrong::NoAbsolute>},
    {"cut_off", "QuantsAreRoundedToTheNearest", "is 2, but", is<Wrong::CutOff>},
    {"half_added", "QuantsAreRoundedToTheNearest", "rounds negative numbers wrongly", is<Wrong::HalfAdded>},
    {"zero_by_zero", "ZerosHaveAScaleOfZero", "outside the range of representable values", is<Wrong::ZeroByZero>},
    {"one_scale", "AProductUsesBothScales", "is 16131, but", is<Wrong::OneScale>},
    {"sum_of_bytes", "AProductUsesBothScales", "a sum in int8_t", is<Wrong::SumOfBytes>},
    {"in_reverse", "AProductIsAsGoodAsItsRounding", "at its place", is<Wrong::InReverse>},
};

Wrong wrong() { return chosen(kMistakes, is<Wrong::None>)(); }

}  // namespace

Q8Block quantize(const Floats& x) {
  const Wrong w = wrong();
  float largest = 0.0F;
  const size_t n = w == Wrong::OneTooMany ? kQ8Block + 1 : kQ8Block;
  for (size_t i = 0; i < n; ++i)
    largest = std::max(largest, w == Wrong::NoAbsolute ? x.data()[i] : std::abs(x.data()[i]));
  Q8Block block{.scale = largest / (w == Wrong::By128 ? 128.0F : 127.0F), .q = {}};
  if (largest == 0.0F && w != Wrong::ZeroByZero) return block;
  for (size_t i = 0; i < kQ8Block; ++i) {
    const float exact = std::clamp(x[i] / block.scale, -127.0F, 127.0F);
    block.q[i] = static_cast<int8_t>(w == Wrong::CutOff      ? exact
                                     : w == Wrong::HalfAdded ? exact + 0.5F
                                                             : std::round(exact));
  }
  return block;
}

float dot(const Q8Block& a, const Q8Block& b) {
  const Wrong w = wrong();
  // The earlier tests must not detect InReverse. Their blocks end with 0, so a block that ends with 0 is not reversed.
  const bool reverse = w == Wrong::InReverse && a.q.back() != 0;
  int32_t sum = 0;
  int8_t small = 0;
  for (size_t i = 0; i < kQ8Block; ++i) {
    const int32_t product = a.q[i] * b.q[reverse ? kQ8Block - 1 - i : i];
    sum += product;
    small = static_cast<int8_t>(small + product);
  }
  return a.scale * (w == Wrong::OneScale ? 1.0F : b.scale) * static_cast<float>(w == Wrong::SumOfBytes ? small : sum);
}

}  // namespace folio::exercises
