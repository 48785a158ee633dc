#include "experiments/exercises/properties/training/gradients.h"

namespace folio::exercises {
namespace {

Pass swiglu_pass() {
  return {.leaves = {test::randn({4, 3}), test::randn({5, 3}), test::randn({3, 5}), test::randn({5, 3})},
          .forward =
              [](const Tensors& l) {
                const Tensor z = l[0].matmul(l[1].t());
                return (z * torch::sigmoid(z) * l[0].matmul(l[3].t())).matmul(l[2].t());
              },
          .by_hand = [](const Tensors& l, const Tensor& dy) -> Tensors {
            const auto d = swiglu_backward(l[0], l[1], l[2], l[3], dy);
            return {d.x, d.w1, d.w2, d.w3};
          }};
}

TEST(SwigluBackward, TheGateIsAFactorOfTheOtherWay) {
  const auto one = torch::ones({1, 1}, torch::kDouble), two = 2 * one;
  const auto d = swiglu_backward(one, two, one, one, one);  // z = x w1ᵀ = 2, u = x w3ᵀ = 1
  const double silu = 2.0 / (1.0 + std::exp(-2.0));
  test::expect_close(d.w3, silu * one, 16 * test::kEps,
                     "du = dh silu(z): a product passes to each factor the other one, here silu(z) and not z or σ(z).");
  test::expect_close(d.w2, silu * one, 16 * test::kEps, "dw2 = dyᵀ h, with h = silu(z) u.");
}

TEST(SwigluBackward, TheSlopeOfSiluHasTwoTerms) {
  const auto one = torch::ones({1, 1}, torch::kDouble), two = 2 * one;
  const auto d = swiglu_backward(one, two, one, one, one);
  const double sigma = 1.0 / (1.0 + std::exp(-2.0));
  test::expect_close(
      d.w1, sigma * (1.0 + 2.0 * (1.0 - sigma)) * one, 16 * test::kEps,
      "silu(z) = z σ(z) is a product: its slope is σ + z σ (1 - σ), which is above 1 at z = 2. σ alone is the "
      "first half of the rule.");
}

TEST(SwigluBackward, BothWaysToTheInputAddUp) {
  const auto x = test::randn({1, 1}), w1 = test::randn({1, 1}), w3 = test::randn({1, 1});
  const auto one = torch::ones({1, 1}, torch::kDouble);
  const auto d = swiglu_backward(x, w1, one, w3, one);
  // y depends on x only through w1 x and w3 x, so x ∂L/∂x = w1 ∂L/∂w1 + w3 ∂L/∂w3.
  test::expect_close(x * d.x, w1 * d.w1 + w3 * d.w3, 64 * test::kEps * (1 + test::largest(x * d.x)),
                     "x is used twice, by w1 and by w3, and what comes back on the two ways adds up.");
}

TEST(SwigluBackward, EqualsAutograd) { expect_autograd(swiglu_pass(), 2 * 3 + 2 * 5 + 4 + 10); }

TEST(SwigluBackward, EqualsCentralDifferences) { expect_differences(swiglu_pass()); }

}  // namespace
}  // namespace folio::exercises
