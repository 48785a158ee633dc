#include <cmath>

#include "experiments/exercises/properties/training/gradients.h"

namespace folio::exercises {
namespace {

Tensor head_weights(const Tensor& q, const Tensor& k) {
  const int64_t T = q.size(0);
  const Tensor later = torch::ones({T, T}, torch::kBool).triu(1);
  return (q.matmul(k.t()) / std::sqrt(q.size(1))).masked_fill(later, -INFINITY).softmax(-1);
}

Pass head_pass() {
  return {.leaves = {test::randn({5, 3}), test::randn({5, 3}), test::randn({5, 3})},
          .forward = [](const Tensors& l) { return head_weights(l[0], l[1]).matmul(l[2]); },
          .by_hand = [](const Tensors& l, const Tensor& dy) -> Tensors {
            const auto d = attention_backward(l[0], l[1], l[2], dy);
            return {d.q, d.k, d.v};
          }};
}

TEST(AttentionBackward, AValueGetsItsShareOfEachOutput) {
  const auto q = torch::zeros({3, 2}, torch::kDouble), dy = torch::ones({3, 2}, torch::kDouble);
  const auto d = attention_backward(q, test::randn({3, 2}), test::randn({3, 2}), dy);
  const auto shares = torch::tensor({1.0 + 1.0 / 2 + 1.0 / 3, 1.0 / 2 + 1.0 / 3, 1.0 / 3}, torch::kDouble);
  test::expect_close(
      d.v, shares.unsqueeze(1).expand({3, 2}), 8 * test::kEps,
      "dv_u = Σ_t p_tu dy_t, and p is causal. With queries of 0 the first row looks at one position, the "
      "second at two, the third at three.");
}

TEST(AttentionBackward, AQueryGetsTheGradientOfItsRow) {
  const auto q = test::randn({5, 3}), k = test::randn({5, 3}), v = test::randn({5, 3}), dy = test::randn({5, 3});
  Tensor changed = dy.clone();
  changed.select(0, 1).normal_();
  const auto others = torch::tensor({0, 2, 3, 4}).to(torch::kLong);
  const auto before = attention_backward(q, k, v, dy).q, after = attention_backward(q, k, v, changed).q;
  test::expect_equal(after.index_select(0, others), before.index_select(0, others),
                     "dy of position 1 changed, and so did dq of another position: rows were mixed. A sum over each "
                     "row has to stay a column, [T, 1]: sum(-1, /*keepdim=*/true). Without keepdim it is [T], which "
                     "broadcasting repeats as a row, so number j of each row meets the sum of row j.");
}

TEST(AttentionBackward, WhatAllKeysShareGetsNoGradient) {
  const auto q = test::randn({5, 3}), k = test::randn({5, 3}), v = test::randn({5, 3}), dy = test::randn({5, 3});
  const auto d = attention_backward(q, k, v, dy);
  test::expect_close(
      d.k.sum(0), torch::zeros(3, torch::kDouble), 512 * test::kEps * (1 + test::largest(d.k)) * 5,
      "The same vector added to all keys adds the same to all scores of a row, which changes no softmax: the "
      "gradients of the keys sum to 0. ds = p dp forgets that the softmax divides by a sum: "
      "ds = p (dp - Σ dp p).");
}

TEST(AttentionBackward, TheScaleIsPassedOn) {
  const auto q = test::randn({5, 4}), k = test::randn({5, 4}), v = test::randn({5, 4}), dy = test::randn({5, 4});
  const auto d = attention_backward(q, k, v, dy);
  const auto p = head_weights(q, k), dp = dy.matmul(v.t());
  const auto ds = p * (dp - (p * dp).sum(-1, true));
  test::expect_close(d.q, ds.matmul(k) / 2.0, 512 * test::kEps * (1 + test::largest(d.q)),
                     "dq = ds k / sqrt(K), here with K = 4: the scores were divided, so the way back is.");
}

TEST(AttentionBackward, EqualsAutograd) { expect_autograd(head_pass(), 4 * 3 + 4 * 5 + 10); }

TEST(AttentionBackward, EqualsCentralDifferences) { expect_differences(head_pass()); }

}  // namespace
}  // namespace folio::exercises
