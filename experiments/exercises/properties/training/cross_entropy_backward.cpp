#include <ATen/ops/cross_entropy_loss.h>

#include "experiments/exercises/properties/training/gradients.h"

namespace folio::exercises {
namespace {

const Tensor& some_targets() {
  static const Tensor targets = torch::tensor({1, 0, 4, 1}).to(torch::kLong);
  return targets;
}

Pass loss_pass() {
  return {.leaves = {test::randn({4, 5})},
          .forward = [](const Tensors& l) { return torch::cross_entropy_loss(l[0], some_targets()); },
          .by_hand = [](const Tensors& l, const Tensor& dy) -> Tensors {
            return {dy * cross_entropy_backward(l[0], some_targets())};
          }};
}

TEST(CrossEntropyBackward, EachRowSumsToZero) {
  const auto d = cross_entropy_backward(test::randn({4, 5}), some_targets());
  test::expect_close(
      d.sum(-1), torch::zeros(4, torch::kDouble), 16 * test::kEps,
      "The same number added to all logits of a row changes no softmax. What was predicted sums to 1, and so "
      "does what came: subtract 1 at the target.");
}

TEST(CrossEntropyBackward, TheLossIsAMean) {
  const auto logits = test::randn({4, 5});
  const auto once = cross_entropy_backward(logits, some_targets());
  const auto twice = cross_entropy_backward(torch::cat({logits, logits}), torch::cat({some_targets(), some_targets()}));
  test::expect_close(2.0 * twice.slice(0, 0, 4), once, 16 * test::kEps,
                     "The same rows twice have the same loss, and each row has half of a say in it: the gradient is "
                     "divided by N.");
}

TEST(CrossEntropyBackward, TheLikelyPredictionIsPushedDown) {
  const auto d =
      cross_entropy_backward(torch::tensor({{5.0, 0.0, 0.0}}, torch::kDouble), torch::tensor({2}).to(torch::kLong));
  EXPECT_GT(d[0][0].item<double>(), 0.9)
      << "It has nearly all the probability, and did not come: its logit has to fall.";
  EXPECT_LT(d[0][2].item<double>(), -0.9) << "This one came: its logit has to rise, against the gradient.";
}

TEST(CrossEntropyBackward, LargeLogitsStayFinite) {
  const auto d = cross_entropy_backward(torch::tensor({{1000.0, 0.0}, {0.0, 0.0}}, torch::kDouble),
                                        torch::tensor({1, 0}).to(torch::kLong));
  test::expect_close(d, torch::tensor({{0.5, -0.5}, {-0.25, 0.25}}, torch::kDouble), 4 * test::kEps,
                     "e^1000 is no number. Subtract the largest logit of the row first, which changes no softmax. Each "
                     "row has its own: less 1000, the second row would have e^-1000 = 0 only, and 0 / 0 is NaN.");
}

TEST(CrossEntropyBackward, EqualsAutograd) { expect_autograd(loss_pass(), 5 + 10); }

TEST(CrossEntropyBackward, EqualsCentralDifferences) { expect_differences(loss_pass()); }

}  // namespace
}  // namespace folio::exercises
