// The laws of RMSNorm.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "gradient_check.h"
#include "modules/rms_norm.h"
#include "support.h"

namespace folio::test {
namespace {

TEST(RmsNorm, EqualsTheFormula) {
  for (const int64_t dim : {1, 2, 7, 64}) {
    auto norm = in_double(nn::RMSNorm(dim, 1e-3));
    const auto x = randn({3, 5, dim}), y = norm->forward(x);
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t t = 0; t < 5; ++t) {
        double squares = 0.0;
        for (int64_t d = 0; d < dim; ++d) squares += std::pow(x[b][t][d].item<double>(), 2);
        const double scale = 1.0 / std::sqrt(squares / static_cast<double>(dim) + 1e-3);
        // Each side rounds a sum of `dim` terms, whose relative error the square root halves, and four products.
        expect_close(y[b][t], x[b][t] * scale * norm->weight, (dim + 4) * kEps * largest(y[b][t]));
      }
    }
  }
}

TEST(RmsNorm, WeightIsOneAtFirstAndEpsKeepsZerosFinite) {
  nn::RMSNorm norm(6);
  EXPECT_TRUE(torch::equal(norm->weight, torch::ones(6)));
  EXPECT_TRUE(torch::equal(norm->forward(torch::zeros({2, 6})), torch::zeros({2, 6})));
}

TEST(RmsNorm, ResultDoesNotDependOnTheScale) {
  auto norm = in_double(nn::RMSNorm(9, 0.0));
  const auto x = randn({4, 9}), y = norm->forward(x);
  for (const double scale : {1024.0, 0x1p-20}) EXPECT_TRUE(torch::equal(norm->forward(scale * x), y));
  for (const double scale : {1e6, 1e-6}) expect_close(norm->forward(scale * x), y, 16 * kEps * largest(y));
}

TEST(RmsNorm, APositionDependsOnItselfAlone) {
  nn::RMSNorm norm(8);
  const auto x = torch::randn({2, 3, 8}), y = norm->forward(x);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < 3; ++t) {
      auto changed = 100 * torch::randn({2, 3, 8});
      changed[b][t] = x[b][t];
      const auto z = norm->forward(changed);
      EXPECT_TRUE(torch::equal(z[b][t], y[b][t]));
      EXPECT_FALSE(torch::equal(z, y));
    }
  }
}

TEST(RmsNorm, GradientsEqualCentralDifferences) {
  auto norm = in_double(nn::RMSNorm(5, 1e-2));
  const auto x = randn({2, 3, 5});
  expect_gradients([&] { return norm->forward(x); }, leaves(x, *norm));
}

TEST(RmsNorm, RefusesOtherSizes) {
  nn::RMSNorm norm(8);
  expect_error([&] { norm->forward(torch::zeros({2, 3, 7})); }, {"RMSNorm", "[..., 8]", "Float [2, 3, 7]"});
  expect_error([&] { norm->forward(torch::tensor(1.0F)); }, {"[..., 8]", "Float []"});
  expect_error([] { nn::RMSNorm(0); }, {"at least 1", "0"});
  expect_error([] { nn::RMSNorm(4, -1.0); }, {"at least 0", "-1"});
}

}  // namespace
}  // namespace folio::test
