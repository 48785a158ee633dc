// Tests of any rotary position embedding on adjacent pairs: a module holder that is constructed as
// nn::RopeCache(context, head_dim, theta) and has its `apply`. Tolerances: angles reach `context` radians and are
// rounded once, so a rotation in double has an error of about eps * context * norm.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <utility>

#include "tests/modules/gradient_check.h"
#include "tests/modules/support.h"

namespace folio::test {

inline constexpr int64_t kRopeContext = 40;
inline constexpr double kAngleError = 2 * kEps * kRopeContext;

/// Returns the rotation matrix of one position by the definition: block-diagonal, [head_dim, head_dim].
inline torch::Tensor rotation_matrix(int64_t position, int64_t head_dim, double theta) {
  auto matrix = torch::zeros({head_dim, head_dim}, torch::kDouble);
  for (int64_t i = 0; i < head_dim; i += 2) {
    const double angle =
        static_cast<double>(position) * std::pow(theta, -static_cast<double>(i) / static_cast<double>(head_dim));
    matrix[i][i] = std::cos(angle);
    matrix[i][i + 1] = -std::sin(angle);
    matrix[i + 1][i] = std::sin(angle);
    matrix[i + 1][i + 1] = std::cos(angle);
  }
  return matrix;
}

template <typename RopeType>
class Rope : public testing::Test {};
TYPED_TEST_SUITE_P(Rope);

TYPED_TEST_P(Rope, PositionZeroIsTheIdentity) {
  TypeParam rope(kRopeContext, 6);
  const auto x = torch::randn({2, 1, 3, 6});
  const auto y = rope->apply(x);
  expect_equal(y, x, "The first position is 0, and its angles are 0. Are positions counted from 1?");
  EXPECT_TRUE(y.scalar_type() == torch::kFloat)
      << "The result has x's type: angles are computed in double, and their cosines and sines are brought to x's type.";
}

TYPED_TEST_P(Rope, NormsAreKept) {
  TypeParam rope(kRopeContext, 8);
  const auto x = randn({2, kRopeContext, 3, 8});
  expect_close(rope->apply(x).norm(2, -1), x.norm(2, -1), 8 * kEps * largest(x.norm(2, -1)),
               "A rotation changes no length: (a, b) becomes (a cos - b sin, a sin + b cos). Is a sign wrong?");
}

TYPED_TEST_P(Rope, TheFirstPairTurnsByOneRadianAStep) {
  TypeParam rope(kRopeContext, 2);
  const auto y = rope->apply(torch::tensor({1.0, 0.0}, torch::kDouble).expand({1, kRopeContext, 1, 2}));
  const auto angles = torch::arange(kRopeContext, torch::kDouble);
  expect_close(
      y[0].squeeze(1), torch::stack({angles.cos(), angles.sin()}, -1), kAngleError,
      "Pairs are numbered from 0, so the first turns by theta^0 = 1 radian at each position, counter-clockwise. "
      "Is an exponent off by one, or the direction wrong?");
}

TYPED_TEST_P(Rope, FirstPositionContinuesASequence) {
  TypeParam rope(kRopeContext, 6);
  const auto x = randn({2, kRopeContext, 3, 6}), y = rope->apply(x);
  for (const int64_t t : {1, 17, 39}) {
    expect_close(rope->apply(x.slice(1, t), t), y.slice(1, t), kAngleError * 2 * largest(x),
                 "apply(x, first_position): the positions of x begin with first_position, not with 0.");
  }
}

TYPED_TEST_P(Rope, RotationsCompose) {
  TypeParam rope(kRopeContext, 8);
  const auto x = randn({2, 1, 3, 8});
  for (const auto& [m, n] : {std::pair{1, 1}, {3, 7}, {0, 5}, {19, 20}}) {
    expect_close(rope->apply(rope->apply(x, m), n), rope->apply(x, m + n), 3 * kAngleError * largest(x),
                 "Angles are proportional to the position: to turn by m and by n is to turn by m + n.");
  }
}

TYPED_TEST_P(Rope, ScoresDependOnlyOnDistance) {
  TypeParam rope(kRopeContext, 8);
  const auto q = randn({1, 1, 1, 8}), k = randn({1, 1, 1, 8});
  const auto score = [&](int64_t m, int64_t n) {
    return (rope->apply(q, m) * rope->apply(k, n)).sum().template item<double>();
  };
  const double tolerance = 4 * kAngleError * (q.norm() * k.norm()).template item<double>();
  for (const int64_t distance : {0, 1, 2, 11}) {
    for (int64_t n = 0; n + distance < kRopeContext; n += 5) {
      EXPECT_NEAR(score(n + distance, n), score(distance, 0), tolerance)
          << "Positions " << n + distance << " and " << n << " have the score of " << distance
          << " and 0: q and k are turned by angles that are proportional to the position, in the same direction.";
    }
  }
  EXPECT_GT(std::abs(score(5, 0) - score(1, 0)), tolerance) << "Another distance has another score.";
  EXPECT_GT(std::abs(score(5, 0) - score(0, 5)), tolerance) << "Before and after are not the same: the sign counts.";
}

TYPED_TEST_P(Rope, EqualsRotationMatrices) {
  for (const double theta : {10000.0, 500000.0, 10.0}) {
    for (const int64_t head_dim : {2, 4, 10}) {
      TypeParam rope(kRopeContext, head_dim, theta);
      const auto x = randn({2, kRopeContext, 3, head_dim}), y = rope->apply(x);
      for (int64_t t = 0; t < kRopeContext; ++t) {
        const auto expected = x.select(1, t).matmul(rotation_matrix(t, head_dim, theta).t());
        expect_close(
            y.select(1, t), expected, kAngleError * 2 * largest(x),
            "Pair i is (x[2i], x[2i+1]), two neighbours, not (x[i], x[i + head_dim / 2]). It turns by position * "
            "theta^(-2i / head_dim).");
      }
    }
  }
}

TYPED_TEST_P(Rope, GradientsEqualCentralDifferences) {
  TypeParam rope(kRopeContext, 4);
  const auto x = randn({2, 3, 2, 4});
  SCOPED_TRACE("Autograd's gradients are wrong: was a value taken out of the graph, by detach() or item()?");
  expect_gradients([&] { return rope->apply(x, 5); }, {x});
}

REGISTER_TYPED_TEST_SUITE_P(Rope, PositionZeroIsTheIdentity, NormsAreKept, TheFirstPairTurnsByOneRadianAStep,
                            FirstPositionContinuesASequence, RotationsCompose, ScoresDependOnlyOnDistance,
                            EqualsRotationMatrices, GradientsEqualCentralDifferences);

}  // namespace folio::test
