// The laws of rotary position embedding. Angles reach `context` radians and are rounded once, so a rotation in double
// is off by about eps · context · norm; that is where the tolerances come from.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <utility>
#include <vector>

#include "gradient_check.h"
#include "modules/rope.h"
#include "support.h"

namespace folio::test {
namespace {

constexpr int64_t kContext = 40;
constexpr double kAngleError = 2 * kEps * kContext;

/// The block-diagonal rotation matrix of one position, [head_dim, head_dim], from the definition.
torch::Tensor rotation_matrix(int64_t position, int64_t head_dim, double theta) {
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

TEST(Rope, PositionZeroIsTheIdentity) {
  nn::RopeCache rope(kContext, 6);
  const auto x = torch::randn({2, 1, 3, 6});
  EXPECT_TRUE(torch::equal(rope->apply(x), x));
}

TEST(Rope, NormsAreKept) {
  nn::RopeCache rope(kContext, 8);
  const auto x = randn({2, kContext, 3, 8});
  expect_close(rope->apply(x).norm(2, -1), x.norm(2, -1), 8 * kEps * largest(x.norm(2, -1)));
}

TEST(Rope, RotationsCompose) {
  nn::RopeCache rope(kContext, 8);
  const auto x = randn({2, 1, 3, 8});
  for (const auto& [m, n] : {std::pair{1, 1}, {3, 7}, {0, 5}, {19, 20}}) {
    expect_close(rope->apply(rope->apply(x, m), n), rope->apply(x, m + n), 3 * kAngleError * largest(x));
  }
}

TEST(Rope, ScoresDependOnlyOnDistance) {
  nn::RopeCache rope(kContext, 8);
  const auto q = randn({1, 1, 1, 8}), k = randn({1, 1, 1, 8});
  const auto score = [&](int64_t m, int64_t n) { return (rope->apply(q, m) * rope->apply(k, n)).sum().item<double>(); };
  const double tolerance = 4 * kAngleError * (q.norm() * k.norm()).item<double>();
  for (const int64_t distance : {0, 1, 2, 11}) {
    for (int64_t n = 0; n + distance < kContext; n += 5) {
      EXPECT_NEAR(score(n + distance, n), score(distance, 0), tolerance);
    }
  }
  EXPECT_GT(std::abs(score(5, 0) - score(1, 0)), tolerance);
  EXPECT_GT(std::abs(score(5, 0) - score(0, 5)), tolerance) << "the direction matters too";
}

TEST(Rope, CacheEqualsRotationMatrices) {
  for (const double theta : {10000.0, 500000.0, 10.0}) {
    for (const int64_t head_dim : {2, 4, 10}) {
      nn::RopeCache rope(kContext, head_dim, theta);
      const auto x = randn({2, kContext, 3, head_dim}), y = rope->apply(x);
      for (int64_t t = 0; t < kContext; ++t) {
        const auto expected = x.select(1, t).matmul(rotation_matrix(t, head_dim, theta).t());
        expect_close(y.select(1, t), expected, kAngleError * 2 * largest(x));
      }
    }
  }
}

TEST(Rope, FactorsDivideTheFrequencies) {
  const auto plain = nn::RopeCache(kContext, 6, 100.0)->rotations();
  const auto scaled = nn::RopeCache(kContext, 6, 100.0, std::vector{1.0, 2.0, 4.0})->rotations();
  for (const int64_t t : {0, 1, 3, 9}) {  // position 4t of a pair that is four times as slow is the plain position t
    EXPECT_TRUE(torch::equal(scaled[t][0], plain[t][0]));
    EXPECT_TRUE(torch::allclose(scaled[2 * t][1], plain[t][1], 0.0, kAngleError));
    EXPECT_TRUE(torch::allclose(scaled[4 * t][2], plain[t][2], 0.0, kAngleError));
  }
  const std::vector<double> none(3, 1.0);
  EXPECT_TRUE(torch::equal(nn::RopeCache(kContext, 6, 100.0, none)->rotations(), plain));
}

TEST(Rope, FirstPositionContinuesASequence) {
  nn::RopeCache rope(kContext, 6);
  const auto x = torch::randn({2, kContext, 3, 6}), y = rope->apply(x);
  for (const int64_t t : {1, 17, 39}) EXPECT_TRUE(torch::equal(rope->apply(x.slice(1, t), t), y.slice(1, t)));
}

TEST(Rope, FarPositionsKeepFullPrecision) {
  nn::RopeCache rope(1 << 17, 64, 500000.0);
  const auto x = torch::randn({1, 1, 3, 64});
  for (const int64_t t : {1 << 16, (1 << 17) - 1}) {
    const auto y = rope->apply(x, t);
    EXPECT_EQ(y.scalar_type(), torch::kFloat);
    const auto expected = x.to(torch::kDouble).matmul(rotation_matrix(t, 64, 500000.0).t());
    // cos, sin, two products and a sum are rounded to float; an angle rounded to float would be off by 2^-8.
    expect_close(y.to(torch::kDouble), expected, 6 * 0x1p-24 * 2 * largest(x));
  }
}

TEST(Rope, HalfTypesAreRotatedInFloat) {
  nn::RopeCache rope(kContext, 8);
  const auto x = torch::randn({2, kContext, 3, 8}).to(torch::kBFloat16);
  const auto y = rope->apply(x);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::equal(y, rope->apply(x.to(torch::kFloat)).to(torch::kBFloat16)));
}

TEST(Rope, InputsOfEveryTypeReadOneCache) {
  const nn::RopeCacheImpl rope(kContext, 8);  // const: layers share it, perhaps on several threads
  const auto x = randn({2, kContext, 3, 8});
  const auto in_double = rope.apply(x);
  EXPECT_EQ(rope.apply(x.to(torch::kFloat)).scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::equal(rope.apply(x), in_double));
  EXPECT_EQ(rope.rotations().scalar_type(), torch::kComplexDouble);
}

TEST(Rope, HasNoState) {
  nn::RopeCache rope(kContext, 8);
  EXPECT_TRUE(rope->parameters().empty());
  EXPECT_TRUE(rope->buffers().empty());
}

TEST(Rope, GradientsEqualCentralDifferences) {
  nn::RopeCache rope(kContext, 4);
  const auto x = randn({2, 3, 2, 4});
  expect_gradients([&] { return rope->apply(x, 5); }, {x});
}

TEST(Rope, ReadsTransposedInputs) {
  nn::RopeCache rope(kContext, 4);
  const auto x = randn({2, 4, 3, 5}).permute({0, 3, 2, 1});
  EXPECT_TRUE(torch::equal(rope->apply(x), rope->apply(x.contiguous())));
}

TEST(Rope, RefusesOtherSizesAndPositions) {
  expect_error([] { nn::RopeCache(8, 5); }, {"even", "5"});
  expect_error([] { nn::RopeCache(0, 4); }, {"context_length", "0"});
  expect_error([] { nn::RopeCache(8, 4, -1.0); }, {"theta", "-1"});
  expect_error([] { nn::RopeCache(8, 4, 10.0, std::vector{1.0}); }, {"2 pairs", "1 factors"});
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
