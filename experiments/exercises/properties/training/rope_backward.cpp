#include "experiments/exercises/properties/training/gradients.h"

namespace folio::exercises {
namespace {

// Returns angles [5, 3] that RoPE would not produce: the backward pass must work for any angles.
const Tensor& rope_angles() {
  static const Tensor angles = torch::arange(15, torch::kDouble).view({5, 3}) * 0.7;
  return angles;
}

Tensor turned(const Tensor& x) {
  const Tensor c = rope_angles().cos(), s = rope_angles().sin(), pairs = x.unflatten(-1, {-1, 2});
  const Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  return torch::stack({a * c - b * s, a * s + b * c}, -1).flatten(-2);
}

Tensor by_hand(const Tensor& dy) { return rope_backward(rope_angles().cos(), rope_angles().sin(), dy); }

Pass rope_pass() {
  return {.leaves = {test::randn({5, 6})},
          .forward = [](const Tensors& l) { return turned(l[0]); },
          .by_hand = [](const Tensors&, const Tensor& dy) -> Tensors { return {by_hand(dy)}; }};
}

TEST(RopeBackward, LengthsAreKept) {
  const auto dy = test::randn({5, 6});
  test::expect_close(
      by_hand(dy).norm(2, -1), dy.norm(2, -1), 16 * test::kEps * (1 + test::largest(dy.norm(2, -1))),
      "The way back is a rotation, too, and changes no length. Is one of the two terms missing, or a sign "
      "wrong?");
}

TEST(RopeBackward, WhatWasTurnedForwardIsTurnedBack) {
  const auto x = test::randn({5, 6});
  test::expect_close(
      by_hand(turned(x)), x, 16 * test::kEps * test::largest(x),
      "The gradient is turned by the negative angle: forward and then back is where it was. Turned by the "
      "same angle again, it is off by twice the angle.");
}

TEST(RopeBackward, EqualsAutograd) { expect_autograd(rope_pass(), 10); }

TEST(RopeBackward, EqualsCentralDifferences) { expect_differences(rope_pass()); }

}  // namespace
}  // namespace folio::exercises
