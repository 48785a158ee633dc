// Compares hand-written backward passes with autograd and with central differences.
#pragma once

#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "experiments/exercises/training/training.h"
#include "tests/modules/gradient_check.h"
#include "tests/modules/support.h"

namespace folio::exercises {

using Tensors = std::vector<Tensor>;

/// A forward pass, its random inputs (`leaves`), and its hand-written backward pass, which returns the gradients of the
/// inputs without using autograd.
struct Pass {
  Tensors leaves;
  std::function<Tensor(const Tensors& leaves)> forward;
  std::function<Tensors(const Tensors& leaves, const Tensor& dy)> by_hand;
};

/// Expects that by_hand's gradients equal autograd's. `roundings` is the number of rounding errors on the longest path
/// to a gradient. The tolerance also allows for sums that cancel to a sixteenth of the size of their terms.
inline void expect_autograd(const Pass& pass, int64_t roundings) {
  Tensors leaves;
  for (const Tensor& leaf : pass.leaves) leaves.push_back(leaf.clone().requires_grad_());
  const Tensor y = pass.forward(leaves), dy = torch::randn_like(y);
  const auto expected = torch::autograd::grad({y}, leaves, {dy});
  const torch::NoGradGuard no_grad;
  const auto actual = pass.by_hand(pass.leaves, dy);
  for (size_t i = 0; i < expected.size(); ++i) {
    test::expect_close(
        actual[i], expected[i], 8 * static_cast<double>(roundings) * test::kEps * (1 + test::largest(expected[i])),
        "This is not autograd's gradient of the same forward pass. Is a term, a factor or a way to the loss "
        "missing?");
    if (testing::Test::HasFailure()) return;
  }
}

inline void expect_differences(const Pass& pass) {
  const torch::NoGradGuard no_grad;
  const Tensor dy = torch::randn_like(pass.forward(pass.leaves));
  test::expect_central_differences([&] { return pass.forward(pass.leaves); }, pass.leaves, dy,
                                   pass.by_hand(pass.leaves, dy));
}

}  // namespace folio::exercises
