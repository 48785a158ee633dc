#include <torch/optim/adamw.h>

#include "experiments/exercises/training/training.h"
#include "tests/modules/support.h"

namespace folio::exercises {
namespace {

Moments fresh(const Tensor& w) { return {.m = torch::zeros_like(w), .v = torch::zeros_like(w)}; }

Tensor stepped(const Tensor& w, const Tensor& g, const AdamWOptions& options, int steps = 1) {
  Tensor now = w.clone();
  Moments moments = fresh(w);
  for (int i = 0; i < steps; ++i) adamw_step(now, g, moments, options);
  return now;
}

TEST(AdamW, AStepGoesAgainstTheGradient) {
  const auto w = torch::zeros(2, torch::kDouble);
  const auto now = stepped(w, torch::tensor({1.0, -1.0}, torch::kDouble), {});
  EXPECT_LT(now[0].item<double>(), 0.0) << "The gradient points to where the loss rises; w goes the other way.";
  EXPECT_GT(now[1].item<double>(), 0.0) << "Its gradient is negative, so w rises.";
}

TEST(AdamW, TheParameterItselfIsChanged) {
  const auto parameter = torch::zeros(2, torch::kDouble);
  Tensor w = parameter;  // the model has another name for the same tensor
  Moments moments = fresh(w);
  adamw_step(w, torch::ones(2, torch::kDouble), moments, {});
  EXPECT_LT(parameter[0].item<double>(), 0.0)
      << "The model's parameter is not changed: w = w - … makes a new tensor and lets w name it. Change it in place: "
         "w.sub_(…), w.mul_(…).";
}

TEST(AdamW, TheSizeOfTheGradientDoesNotMatter) {
  const auto w = torch::zeros(3, torch::kDouble), g = torch::tensor({1.0, -2.0, 3.0}, torch::kDouble);
  const AdamWOptions options{.eps = 0.0};
  test::expect_close(
      stepped(w, 1024 * g, options), stepped(w, g, options), 16 * test::kEps * options.lr,
      "m grows with the gradient, and sqrt(v) as much, so their quotient stays. Is the root missing, or the "
      "division?");
}

TEST(AdamW, TheFirstStepIsLrInSize) {
  const auto w = torch::zeros(3, torch::kDouble), g = torch::tensor({1.0, -2.0, 3.0}, torch::kDouble);
  const AdamWOptions options{.lr = 0.1, .eps = 0.0};
  test::expect_close(
      stepped(w, g, options), -0.1 * g.sign(), 16 * test::kEps,
      "Both means began at 0, so in step n they hold 1 - beta^n of a mean. Divided by that, the first step is "
      "lr in size. Without the correction it is 3.2 lr with these betas.");
}

TEST(AdamW, TheCorrectionFades) {
  const auto w = torch::zeros(3, torch::kDouble), g = torch::tensor({1.0, -2.0, 3.0}, torch::kDouble);
  const AdamWOptions options{.lr = 0.1, .eps = 0.0};
  test::expect_close(
      stepped(w, g, options, 50), -5.0 * g.sign(), 50 * 50 * test::kEps,
      "With a gradient that stays the same, every step is lr in size. If not, the correction is that of the "
      "first step still: moments.steps has to count.");
}

TEST(AdamW, EpsIsAddedToTheRoot) {
  const auto w = torch::zeros(1, torch::kDouble), g = torch::full({1}, 3.0, torch::kDouble);
  test::expect_close(stepped(w, g, {.lr = 0.1, .eps = 1.0}), -0.1 * g / 4.0, 16 * test::kEps,
                     "m̂ / (sqrt(v̂) + eps), here 3 / (3 + 1): eps is added to the corrected root, not under it.");
}

TEST(AdamW, DecayIsDecoupled) {
  const auto w = torch::tensor({1.0, -2.0, 3.0}, torch::kDouble);
  const AdamWOptions options{.lr = 0.1, .weight_decay = 0.5};
  test::expect_close(
      stepped(w, torch::zeros(3, torch::kDouble), options), 0.95 * w, 16 * test::kEps,
      "Without a gradient w shrinks by lr * weight_decay, a share of itself. Were the decay added to the "
      "gradient, Adam would make a step of lr of it, for small and large weights alike.");
}

TEST(AdamW, EqualsLibTorchsForTwentySteps) {
  const AdamWOptions options{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1};
  Tensor mine = test::randn({4, 3});
  Moments moments = fresh(mine);
  auto theirs = mine.clone().requires_grad_();
  torch::optim::AdamW adamw(std::vector<Tensor>{theirs}, torch::optim::AdamWOptions(options.lr)
                                                             .betas({options.beta1, options.beta2})
                                                             .eps(options.eps)
                                                             .weight_decay(options.weight_decay));
  for (int step = 0; step < 20; ++step) {
    const Tensor g = test::randn({4, 3});
    theirs.mutable_grad() = g.clone();
    adamw.step();
    adamw_step(mine, g, moments, options);
    // Tolerance: about ten rounding errors per step in w and in its update, which is at most lr / sqrt(1 - beta2).
    test::expect_close(mine, theirs.detach(), 10.0 * (step + 1) * test::kEps * (1 + test::largest(mine)),
                       "LibTorch's AdamW takes another step with the same gradients and decay. Are both betas in their "
                       "places?");
  }
}

}  // namespace
}  // namespace folio::exercises
