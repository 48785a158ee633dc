// Gradient check: compares gradients with central differences in double, element by element. Each element's tolerance
// is estimated from differences with two step sizes. Of large tensors, a sample is checked unless FOLIO_LONG is set.
#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace folio::test {

/// Returns the indices of the elements to check: all n if n <= most or FOLIO_LONG is set, else `most`, evenly spaced.
inline std::vector<int64_t> checked_elements(int64_t n, int64_t most) {
  const bool all = n <= most || std::getenv("FOLIO_LONG") != nullptr;
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < (all ? n : most); ++i) elements.push_back(all ? i : (i * (n - 1) + most / 2) / (most - 1));
  return elements;
}

/// Expects the `gradients` of L = sum(r * f()) with respect to `leaves` to equal central differences, in at most
/// `most` elements of each leaf (in all with FOLIO_LONG). Leaves are double and contiguous, and f must read them and be
/// deterministic. With a random r, an error in any row of the Jacobian is detected with probability 1.
///
/// The tolerance is four truncation errors of the difference D(h), each (D(2h) - D(h)) / 3, and 32 rounding errors.
inline void expect_central_differences(const std::function<torch::Tensor()>& f,
                                       const std::vector<torch::Tensor>& leaves, const torch::Tensor& r,
                                       const std::vector<torch::Tensor>& gradients, int64_t most = 48) {
  constexpr double kEps = std::numeric_limits<double>::epsilon();
  const double h = std::cbrt(kEps);
  const torch::NoGradGuard no_grad;
  const double rounding = 32 * kEps * (r * f()).abs().sum().item<double>() / h;
  for (size_t i = 0; i < leaves.size(); ++i) {
    ASSERT_EQ(leaves[i].scalar_type(), torch::kDouble);
    ASSERT_TRUE(leaves[i].is_contiguous());
    ASSERT_EQ(gradients[i].sizes(), leaves[i].sizes())
        << "A gradient has the shape of its tensor, here tensor " << i << ".";
    const auto gradient = gradients[i].contiguous();
    for (const int64_t j : checked_elements(leaves[i].numel(), most)) {
      const auto x = leaves[i].view(-1)[j];  // a view, so that changing it increments the leaf's version
      const auto before = x.item<double>();
      const auto difference = [&](double step) {
        x.fill_(before + step);
        const auto above = f();
        x.fill_(before - step);
        const auto below = f();
        x.fill_(before);
        return (r * (above - below)).sum().item<double>() / (2 * step);
      };
      const double near = difference(h), far = difference(2 * h);
      ASSERT_NEAR(gradient.data_ptr<double>()[j], near, 4 * std::abs(far - near) / 3 + rounding)
          << "This is the gradient of number " << j << " of tensor " << i << ", by central differences.";
    }
  }
}

/// Compares autograd's gradients of sum(r * f()), for a random r, with expect_central_differences(). Checks at most
/// `most` elements of each leaf.
inline void expect_gradients(const std::function<torch::Tensor()>& f, std::vector<torch::Tensor> leaves,
                             int64_t most = 48) {
  for (auto& leaf : leaves) leaf.set_requires_grad(true);
  const auto value = f();
  const auto r = torch::randn_like(value);
  auto gradients =
      torch::autograd::grad({(r * value).sum()}, leaves, /*grad_outputs=*/{}, /*retain_graph=*/std::nullopt,
                            /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = torch::zeros_like(leaves[i]);  // f doesn't depend on this leaf
  }
  expect_central_differences(f, leaves, r, gradients, most);
}

}  // namespace folio::test
