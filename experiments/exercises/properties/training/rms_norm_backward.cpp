#include "experiments/exercises/properties/training/gradients.h"

namespace folio::exercises {
namespace {

constexpr double kNormEps = 1e-2;

Pass norm_pass() {
  return {
      .leaves = {test::randn({4, 6}), test::randn({6})},
      .forward = [](const Tensors& l) { return l[0] * torch::rsqrt(l[0].square().mean(-1, true) + kNormEps) * l[1]; },
      .by_hand = [](const Tensors& l, const Tensor& dy) -> Tensors {
        const auto d = rms_norm_backward(l[0], l[1], kNormEps, dy);
        return {d.x, d.weight};
      }};
}

TEST(RmsNormBackward, TheWeightsGradientIsASumOverRows) {
  const auto x = torch::ones({3, 4}, torch::kDouble), dy = test::randn({3, 4});
  const auto d = rms_norm_backward(x, test::randn({4}), 0.0, dy);
  test::expect_close(d.weight, dy.sum(0), 4 * test::kEps * test::largest(dy),
                     "Every row uses the same weight, so what the rows send back adds up; dy times the normalized x, "
                     "summed, not their mean.");
}

TEST(RmsNormBackward, TheRootMeanSquareIsNoConstant) {
  const auto x = test::randn({4, 6}), dy = test::randn({4, 6});
  const auto d = rms_norm_backward(x, torch::ones(6, torch::kDouble), 0.0, dy);
  test::expect_close(
      (d.x * x).sum(-1), torch::zeros(4, torch::kDouble),
      128 * test::kEps * (1 + test::largest(d.x)) * (1 + test::largest(x)),
      "A longer x gives the same y, so no gradient points along x. It does if r is taken for a constant: "
      "x is in r, too.");
}

TEST(RmsNormBackward, EqualsAutograd) { expect_autograd(norm_pass(), 2 * 6 + 4 + 10); }

TEST(RmsNormBackward, EqualsCentralDifferences) { expect_differences(norm_pass()); }

}  // namespace
}  // namespace folio::exercises
