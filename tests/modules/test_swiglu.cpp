// The laws of SwiGLU.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "gradient_check.h"
#include "modules/swiglu.h"
#include "support.h"

namespace folio::test {
namespace {

TEST(SwiGlu, EqualsTheFormula) {
  for (const auto& [dim, hidden] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {8, 24}}) {
    auto ffn = in_double(nn::SwiGLU(dim, hidden));
    const auto parameters = ffn->named_parameters();
    const auto number = [&](const char* name, int64_t row, int64_t column) {
      return parameters[name][row][column].item<double>();
    };
    const auto x = randn({2, 3, dim}), y = ffn->forward(x);
    for (int64_t i = 0; i < 6; ++i) {
      const auto input = x.view({6, dim})[i], output = y.view({6, dim})[i];
      std::vector<double> inner(hidden);
      double magnitude = 0.0;
      for (int64_t f = 0; f < hidden; ++f) {
        double gate = 0.0, up = 0.0, sizes = 1.0;
        for (int64_t d = 0; d < dim; ++d) {
          const double value = input[d].item<double>();
          gate += number("w1.weight", f, d) * value;
          up += number("w3.weight", f, d) * value;
          sizes += std::abs(value) * (std::abs(number("w1.weight", f, d)) + std::abs(number("w3.weight", f, d)));
        }
        inner[f] = gate / (1.0 + std::exp(-gate)) * up;
        magnitude += sizes * sizes;
      }
      for (int64_t d = 0; d < dim; ++d) {
        double expected = 0.0, largest_w2 = 0.0;
        for (int64_t f = 0; f < hidden; ++f) {
          expected += number("w2.weight", d, f) * inner[f];
          largest_w2 = std::max(largest_w2, std::abs(number("w2.weight", d, f)));
        }
        // Sums of `dim` and of `hidden` terms, and an exponential, each rounded; magnitude bounds |inner| terms.
        const double tolerance = 2 * kEps * static_cast<double>(dim + hidden + 8) * magnitude * largest_w2;
        EXPECT_NEAR(output[d].item<double>(), expected, tolerance);
      }
    }
  }
}

TEST(SwiGlu, HasThreeMatricesAndNothingElse) {
  nn::SwiGLU ffn(4, 10);
  const auto parameters = ffn->named_parameters();
  ASSERT_EQ(parameters.size(), 3U);
  EXPECT_EQ(parameters["w1.weight"].sizes(), (std::vector<int64_t>{10, 4}));
  EXPECT_EQ(parameters["w2.weight"].sizes(), (std::vector<int64_t>{4, 10}));
  EXPECT_EQ(parameters["w3.weight"].sizes(), (std::vector<int64_t>{10, 4}));
}

TEST(SwiGlu, GradientsEqualCentralDifferences) {
  auto ffn = in_double(nn::SwiGLU(3, 5));
  const auto x = randn({2, 2, 3});
  expect_gradients([&] { return ffn->forward(x); }, leaves(x, *ffn));
}

TEST(SwiGlu, RefusesOtherSizes) {
  nn::SwiGLU ffn(4, 10);
  expect_error([&] { ffn->forward(torch::zeros({2, 3, 5})); }, {"SwiGLU", "[B, T, 4]", "Float [2, 3, 5]"});
  expect_error([&] { ffn->forward(torch::zeros({2, 4})); }, {"[B, T, 4]", "Float [2, 4]"});
  expect_error([] { nn::SwiGLU(4, 0); }, {"at least 1", "4 and 0"});
}

}  // namespace
}  // namespace folio::test
