// The gradient check: autograd against central differences in double, number by number. The tolerance is derived for
// each number from the differences themselves, so that a right gradient passes and a wrong one has nowhere to hide.
#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace folio::test {

/// Expects autograd's gradient of L = sum(r · f()), with random r, to equal central differences of L in every number of
/// every leaf. Leaves are double and contiguous; f reads them and is deterministic. A random r hides no wrong column of
/// the Jacobian but with probability 0.
///
/// The central difference D(h) is off by h² L‴ / 6 from truncation, which is (D(2h) - D(h)) / 3, and by the rounding
/// of L over h. h = ∛eps balances the two. Four truncations are granted, and 32 roundings of sum |r · f|.
inline void expect_gradients(const std::function<torch::Tensor()>& f, std::vector<torch::Tensor> leaves) {
  constexpr double kEps = std::numeric_limits<double>::epsilon();
  const double h = std::cbrt(kEps);
  for (auto& leaf : leaves) leaf.set_requires_grad(true);
  const auto value = f();
  const auto r = torch::randn_like(value);
  const auto gradients = torch::autograd::grad({(r * value).sum()}, leaves);

  const torch::NoGradGuard no_grad;
  const double rounding = 32 * kEps * (r * value).abs().sum().item<double>() / h;
  for (size_t i = 0; i < leaves.size(); ++i) {
    ASSERT_EQ(leaves[i].scalar_type(), torch::kDouble);
    ASSERT_TRUE(leaves[i].is_contiguous());
    double* x = leaves[i].data_ptr<double>();
    const auto gradient = gradients[i].contiguous();
    for (int64_t j = 0; j < leaves[i].numel(); ++j) {
      const double before = x[j];
      const auto difference = [&](double step) {
        x[j] = before + step;
        const auto above = f();
        x[j] = before - step;
        const auto below = f();
        x[j] = before;
        return (r * (above - below)).sum().item<double>() / (2 * step);
      };
      const double near = difference(h), far = difference(2 * h);
      ASSERT_NEAR(gradient.data_ptr<double>()[j], near, 4 * std::abs(far - near) / 3 + rounding)
          << "leaf " << i << ", number " << j;
    }
  }
}

}  // namespace folio::test
