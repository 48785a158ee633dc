// Tests of RMSNorm: root mean square, eps, weights, independent positions, and equality with the reference.
#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/properties/engine/reference.h"

namespace folio::exercises {
namespace {

Floats normed(const Floats& x, float eps, Floats weight = {}, size_t n_positions = 1) {
  const size_t dim = x.size() / n_positions;
  if (weight.empty()) weight.assign(dim, 1.0F);
  Floats out(x.size(), -99.0F);
  rms_norm(x.data(), weight.data(), eps, n_positions, dim, out.data());
  return out;
}

TEST(RmsNorm, NothingIsSubtracted) {
  const Floats y = normed({0.0F, 3.0F, 4.0F, 5.0F}, 0.0F);
  expect_close({y[0]}, {0.0F}, 0.0,
               "A number that is 0 stays 0. LayerNorm subtracts the mean of the numbers first; RMSNorm does not.");
}

TEST(RmsNorm, TheSquaresAreAveraged) {
  const Floats y = normed({1.0F, 2.0F, 3.0F, 4.0F}, 0.0F);
  expect_close(normed({-1.0F, 2.0F, -3.0F, 4.0F}, 0.0F), {-y[0], y[1], -y[2], y[3]}, 1e-6,
               "The sign of a number does not change the size of the vector. It does where the mean of the numbers is "
               "taken instead of the mean of their squares.");
}

TEST(RmsNorm, TheScaleOfTheInputDoesNotMatter) {
  const Floats x{1.0F, -2.0F, 3.0F, -4.0F};
  Floats larger = x;
  for (float& value : larger) value *= 10.0F;
  expect_close(normed(larger, 0.0F), normed(x, 0.0F), 1e-6,
               "Ten times the input gives the same output. If it is smaller, the square root is missing: the numbers "
               "were divided by the mean square itself.");
}

TEST(RmsNorm, TheMeanIsTakenAndNotTheSum) {
  expect_close(normed({2.0F, -2.0F, 2.0F, -2.0F}, 0.0F), {1.0F, -1.0F, 1.0F, -1.0F}, 1e-6,
               "Numbers of the same size become 1 and -1, however many there are. 0.5 is what the sum of the squares "
               "gives, where their mean is asked for: divide by dim.");
}

TEST(RmsNorm, ZerosStayFinite) {
  expect_close(normed({0.0F, 0.0F, 0.0F, 0.0F}, 1e-5F), {0.0F, 0.0F, 0.0F, 0.0F}, 0.0,
               "0 was divided by 0: eps is added so that this cannot happen.");
}

TEST(RmsNorm, EpsIsAddedBeforeTheRoot) {
  const auto expected = static_cast<float>(0.01 / std::sqrt(1e-4 + 1e-4));
  expect_close(normed({0.01F, -0.01F}, 1e-4F), {expected, -expected}, 1e-6,
               "sqrt(mean square + eps), not sqrt(mean square) + eps.");
}

TEST(RmsNorm, EachNumberHasItsOwnWeight) {
  expect_close(normed({1.0F, -1.0F, 1.0F, -1.0F}, 0.0F, {1.0F, 2.0F, -3.0F, 0.0F}), {1.0F, -2.0F, -3.0F, 0.0F}, 1e-6,
               "out_i is multiplied by weight_i.");
}

TEST(RmsNorm, APositionDependsOnItselfAlone) {
  const Floats two = normed({1.0F, 1.0F, 1.0F, 1.0F, 9.0F, 9.0F, 9.0F, 9.0F}, 0.0F, {}, 2);
  expect_close(two, Floats(8, 1.0F), 1e-6,
               "Each position is divided by its own size. If the first becomes smaller because the second is large, "
               "the mean was taken over positions too: then a later token changes what was said of an earlier one.");
}

// Tolerance: outputs are below 11 here and have a relative error of at most about (dim + 4) * 2^-24.
TEST(RmsNorm, EqualsTheReference) {
  for (const size_t dim : {1, 2, 7, 64, 100}) {
    const Floats x = random_floats(3 * dim, 1);
    const Floats weight = random_floats(dim, 2);
    Floats expected(x.size());
    reference::rms_norm(x.data(), weight.data(), 1e-5F, 3, dim, expected.data());
    expect_close(normed(x, 1e-5F, weight, 3), expected, 11.0 * static_cast<double>(dim + 4) * 0x1p-24,
                 "Three positions of " + std::to_string(dim) + " random numbers.");
  }
}

}  // namespace
}  // namespace folio::exercises
