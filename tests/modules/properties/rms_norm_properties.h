// Tests of any RMSNorm: a module holder that is constructed as nn::RMSNorm(dim, eps) and has its `forward` and
// `weight`. rms_norm_test.cpp tests Folio's module, and an exercise tests the reader's module.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/modules/gradient_check.h"
#include "tests/modules/support.h"

namespace folio::test {

template <typename Norm>
class RmsNorm : public testing::Test {};
TYPED_TEST_SUITE_P(RmsNorm);

TYPED_TEST_P(RmsNorm, NothingIsSubtracted) {
  TypeParam norm(4, 0.0);
  const auto y = norm->forward(torch::tensor({{0.0F, 3.0F, 4.0F, 5.0F}}));
  EXPECT_EQ(y[0][0].template item<float>(), 0.0F)
      << "A number that is 0 stays 0. LayerNorm subtracts the mean of the numbers first; RMSNorm does not.";
}

TYPED_TEST_P(RmsNorm, TheSquaresAreAveraged) {
  TypeParam norm(4, 0.0);
  const auto y = norm->forward(torch::tensor({{1.0F, 2.0F, 3.0F, 4.0F}}));
  const auto z = norm->forward(torch::tensor({{-1.0F, 2.0F, -3.0F, 4.0F}}));
  expect_equal(z.abs(), y,
               "A sign does not change the size of a vector. It does where the mean of the numbers is taken instead of "
               "the mean of their squares.");
}

inline constexpr const char* kScaleMatters =
    "A multiple of x has the same result. If not, the square root is missing: x was divided by the mean square itself.";

TYPED_TEST_P(RmsNorm, ResultDoesNotDependOnTheScale) {
  auto norm = in_double(TypeParam(9, 0.0));
  const auto x = randn({4, 9}), y = norm->forward(x);
  // Without eps, scaling x by a power of two changes only exponents, so the result must be equal bit for bit.
  for (const double scale : {1024.0, 0x1p-20}) {
    expect_equal(norm->forward(scale * x), y, kScaleMatters);
  }
  for (const double scale : {1e6, 1e-6}) {
    expect_close(norm->forward(scale * x), y, 16 * kEps * largest(y), kScaleMatters);
  }
}

TYPED_TEST_P(RmsNorm, TheMeanIsTakenAndNotTheSum) {
  TypeParam norm(4, 0.0);
  const auto y = norm->forward(torch::tensor({{2.0F, -2.0F, 2.0F, -2.0F}}));
  expect_close(y, torch::tensor({{1.0F, -1.0F, 1.0F, -1.0F}}), 0x1p-22,
               "Numbers of the same size become 1 and -1, however many there are. The sum of the squares gives 0.5: "
               "divide it by dim.");
}

TYPED_TEST_P(RmsNorm, WeightIsOneAtFirstAndEpsKeepsZerosFinite) {
  TypeParam norm(6);
  expect_equal(norm->weight, torch::ones(6), "The weight begins as ones, which change nothing.");
  expect_equal(norm->forward(torch::zeros({2, 6})), torch::zeros({2, 6}),
               "0 was divided by 0: eps is added under the root, so that this cannot happen.");
}

TYPED_TEST_P(RmsNorm, APositionDependsOnItselfAlone) {
  TypeParam norm(8);
  const auto x = torch::randn({2, 3, 8}), y = norm->forward(x);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < 3; ++t) {
      auto changed = 100 * torch::randn({2, 3, 8});
      changed[b][t] = x[b][t];
      const auto z = norm->forward(changed);
      expect_equal(z[b][t], y[b][t],
                   "The other positions changed, and so did the result at this one. The mean is over the last "
                   "dimension, never over positions too: they would see the future.");
      if (this->HasFailure()) return;
      EXPECT_FALSE(torch::equal(z, y)) << "The other positions changed, and no result did: the output has to follow x.";
    }
  }
}

TYPED_TEST_P(RmsNorm, EqualsTheFormula) {
  for (const int64_t dim : {1, 2, 7, 64}) {
    auto norm = in_double(TypeParam(dim, 1e-3));
    const auto x = randn({3, 5, dim}), y = norm->forward(x);
    ASSERT_EQ(y.sizes(), x.sizes()) << "The output has the input's shape.";
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t t = 0; t < 5; ++t) {
        double squares = 0.0;
        for (int64_t d = 0; d < dim; ++d) squares += std::pow(x[b][t][d].template item<double>(), 2);
        const double scale = 1.0 / std::sqrt(squares / static_cast<double>(dim) + 1e-3);
        // Both results round four products and a sum of `dim` terms. The square root halves the sum's relative error.
        expect_close(
            y[b][t], x[b][t] * scale * norm->weight, (dim + 4) * kEps * largest(y[b][t]),
            "x / sqrt(mean square + eps) * weight, with eps 0.001 and random weights. Is the weight there, and "
            "is eps the one of the module?");
      }
    }
  }
}

TYPED_TEST_P(RmsNorm, GradientsEqualCentralDifferences) {
  auto norm = in_double(TypeParam(5, 1e-2));
  const auto x = randn({2, 3, 5});
  SCOPED_TRACE("Autograd's gradients are wrong: was a value taken out of the graph, by detach() or item()?");
  expect_gradients([&] { return norm->forward(x); }, leaves(x, *norm));
}

REGISTER_TYPED_TEST_SUITE_P(RmsNorm, NothingIsSubtracted, TheSquaresAreAveraged, ResultDoesNotDependOnTheScale,
                            TheMeanIsTakenAndNotTheSum, WeightIsOneAtFirstAndEpsKeepsZerosFinite,
                            APositionDependsOnItselfAlone, EqualsTheFormula, GradientsEqualCentralDifferences);

}  // namespace folio::test
