// Tests of any SwiGLU: a module holder that is constructed as nn::SwiGLU(dim, hidden_dim) and has its `forward` and the
// parameters w1.weight, w2.weight and w3.weight.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/modules/gradient_check.h"
#include "tests/modules/support.h"

namespace folio::test {

/// Returns the output for one input x, with dim and hidden_dim of 1 and these three weights.
template <typename FeedForward>
double swiglu_of(double x, double w1, double w3, double w2 = 1.0) {
  FeedForward ffn(1, 1);
  ffn->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  auto parameters = ffn->named_parameters();
  parameters["w1.weight"].fill_(w1);
  parameters["w2.weight"].fill_(w2);
  parameters["w3.weight"].fill_(w3);
  return ffn->forward(torch::full({1, 1, 1}, x, torch::kDouble)).template item<double>();
}

template <typename FeedForward>
class SwiGlu : public testing::Test {};
TYPED_TEST_SUITE_P(SwiGlu);

TYPED_TEST_P(SwiGlu, TheGateMultiplies) {
  EXPECT_EQ(swiglu_of<TypeParam>(1.5, 1.0, 0.0), 0.0)
      << "Where w3 x is 0 there is nothing to pass, and the gate times it is 0. A sum does not have that.";
}

TYPED_TEST_P(SwiGlu, ALargeGateIsKept) {
  EXPECT_NEAR(swiglu_of<TypeParam>(1000.0, 1.0, 1.0), 1e6, 1e-3)
      << "silu(1000) is 1000, and 1000 times 1000 is 1e6. 1000 is what the sigmoid gives: silu(z) is z times it. NaN: "
         "e^1000 is infinite, and infinite / infinite is NaN; e^-1000 is 0.";
}

TYPED_TEST_P(SwiGlu, ANegativeGateIsShut) {
  EXPECT_NEAR(swiglu_of<TypeParam>(-20.0, 1.0, 1.0), 0.0, 1e-5)
      << "silu(-20) is nearly 0, so nothing passes. Is there no silu around w1 x?";
}

TYPED_TEST_P(SwiGlu, TheGateIsRoundNotSharp) {
  EXPECT_NEAR(swiglu_of<TypeParam>(-1.0, 1.0, 1.0), 1.0 / (1.0 + std::exp(1.0)), 16 * kEps)
      << "silu(-1) is -1 / (1 + e), a little below 0. ReLU cuts it off at 0.";
}

TYPED_TEST_P(SwiGlu, W1IsTheGate) {
  EXPECT_NEAR(swiglu_of<TypeParam>(2.0, 1.0, -1.0), -4.0 / (1.0 + std::exp(-2.0)), 32 * kEps)
      << "silu(w1 x) times w3 x. Were w1 and w3 mixed up?";
}

TYPED_TEST_P(SwiGlu, EqualsTheFormula) {
  for (const auto& [dim, hidden] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {8, 24}}) {
    auto ffn = in_double(TypeParam(dim, hidden));
    const auto parameters = ffn->named_parameters();
    const auto number = [&](const char* name, int64_t row, int64_t column) {
      return parameters[name][row][column].template item<double>();
    };
    const auto x = randn({2, 3, dim}), y = ffn->forward(x);
    for (int64_t i = 0; i < 6; ++i) {
      const auto input = x.view({6, dim})[i], output = y.view({6, dim})[i];
      std::vector<double> inner(hidden);
      double magnitude = 0.0;
      for (int64_t f = 0; f < hidden; ++f) {
        double gate = 0.0, up = 0.0, sizes = 1.0;
        for (int64_t d = 0; d < dim; ++d) {
          const double value = input[d].template item<double>();
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
        // The tolerance covers the rounding of e^x and of sums of `dim` and `hidden` terms. `magnitude` bounds these
        // sums.
        const double tolerance = 2 * kEps * static_cast<double>(dim + hidden + 8) * magnitude * largest_w2;
        EXPECT_NEAR(output[d].template item<double>(), expected, tolerance)
            << "w2 (silu(w1 x) * w3 x), with dim " << dim << " and hidden_dim " << hidden
            << ". Is each number of the output a sum over all hidden numbers?";
      }
    }
  }
}

TYPED_TEST_P(SwiGlu, GradientsEqualCentralDifferences) {
  auto ffn = in_double(TypeParam(3, 5));
  const auto x = randn({2, 2, 3});
  SCOPED_TRACE("Autograd's gradients are wrong: was a value taken out of the graph, by detach() or item()?");
  expect_gradients([&] { return ffn->forward(x); }, leaves(x, *ffn));
}

REGISTER_TYPED_TEST_SUITE_P(SwiGlu, TheGateMultiplies, ALargeGateIsKept, ANegativeGateIsShut, TheGateIsRoundNotSharp,
                            W1IsTheGate, EqualsTheFormula, GradientsEqualCentralDifferences);

}  // namespace folio::test
