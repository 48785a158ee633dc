#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {
namespace {

using HeadBackward = HeadGradients(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy);

HeadGradients head_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy, bool causal,
                            bool whole_softmax, double scale_back) {
  const Tensor later = torch::ones({q.size(0), q.size(0)}, torch::kBool).triu(1);
  const Tensor scores = q.matmul(k.t()) / std::sqrt(q.size(1));
  const Tensor p = (causal ? scores.masked_fill(later, -INFINITY) : scores).softmax(-1);
  const Tensor dp = dy.matmul(v.t());
  const Tensor ds = whole_softmax ? p * (dp - (dp * p).sum(-1, true)) : p * dp;
  return {ds.matmul(k) * scale_back, ds.t().matmul(q) * scale_back, p.t().matmul(dy)};
}

HeadGradients sound_head_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy) {
  return head_backward(q, k, v, dy, true, true, 1.0 / std::sqrt(q.size(1)));
}

HeadGradients mask_forgotten(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy) {
  return head_backward(q, k, v, dy, false, true, 1.0 / std::sqrt(q.size(1)));
}

HeadGradients sum_without_keepdim(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy) {
  const Tensor later = torch::ones({q.size(0), q.size(0)}, torch::kBool).triu(1);
  const double scale = 1.0 / std::sqrt(q.size(1));
  const Tensor p = (q.matmul(k.t()) * scale).masked_fill(later, -INFINITY).softmax(-1);
  const Tensor dp = dy.matmul(v.t());
  const Tensor ds = p * (dp - (dp * p).sum(-1));
  return {ds.matmul(k) * scale, ds.t().matmul(q) * scale, p.t().matmul(dy)};
}

HeadGradients softmax_number_by_number(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy) {
  return head_backward(q, k, v, dy, true, false, 1.0 / std::sqrt(q.size(1)));
}

HeadGradients scale_forgotten(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy) {
  return head_backward(q, k, v, dy, true, true, 1.0);
}

HeadGradients keys_in_the_wrong_order(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy) {
  const auto d = sound_head_backward(q, k, v, dy);
  return {d.q, d.k.flip(0), d.v};
}

const std::vector<Mistake<HeadBackward>> kHeadBackwardMistakes{
    {"mask_forgotten", "AValueGetsItsShareOfEachOutput", "p is causal", mask_forgotten},
    {"sum_without_keepdim", "AQueryGetsTheGradientOfItsRow", "Without keepdim", sum_without_keepdim},
    {"softmax_number_by_number", "WhatAllKeysShareGetsNoGradient", "divides by a sum", softmax_number_by_number},
    {"scale_forgotten", "TheScaleIsPassedOn", "scores were divided", scale_forgotten},
    {"keys_in_the_wrong_order", "EqualsAutograd", "not autograd's gradient", keys_in_the_wrong_order},
};

}  // namespace

HeadGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy) {
  return chosen(kHeadBackwardMistakes, sound_head_backward)(q, k, v, dy);
}

}  // namespace folio::exercises
