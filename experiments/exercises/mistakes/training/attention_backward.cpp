// The mistakes, each with the test that must fail first and words of its message:
//     mask_forgotten: AValueGetsItsShareOfEachOutput: p is causal
//     sum_without_keepdim: AQueryGetsTheGradientOfItsRow: Without keepdim
//     softmax_number_by_number: WhatAllKeysShareGetsNoGradient: divides by a sum
//     scale_forgotten: TheScaleIsPassedOn: scores were divided
//     keys_in_the_wrong_order: EqualsAutograd: not autograd's gradient
#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {

HeadGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy) {
  const Tensor later = torch::ones({q.size(0), q.size(0)}, torch::kBool).triu(1);
  const double scale = 1.0 / std::sqrt(q.size(1));
  const Tensor scores = q.matmul(k.t()) * scale;
  const Tensor p = (wrong("mask_forgotten") ? scores : scores.masked_fill(later, -INFINITY)).softmax(-1);
  const Tensor dp = dy.matmul(v.t());
  Tensor ds = p * (dp - (dp * p).sum(-1, /*keepdim=*/!wrong("sum_without_keepdim")));
  if (wrong("softmax_number_by_number")) ds = p * dp;
  if (!wrong("scale_forgotten")) ds = ds * scale;
  const Tensor dk = ds.t().matmul(q);
  return {ds.matmul(k), wrong("keys_in_the_wrong_order") ? dk.flip(0) : dk, p.t().matmul(dy)};
}

}  // namespace folio::exercises
