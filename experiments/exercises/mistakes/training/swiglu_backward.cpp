// The mistakes, each with the test that must fail first and words of its message:
//     gate_without_silu: TheGateIsAFactorOfTheOtherWay: passes to each factor the other one
//     slope_is_sigma: TheSlopeOfSiluHasTwoTerms: first half of the rule
//     one_way_to_the_input: BothWaysToTheInputAddUp: x is used twice
//     rows_in_the_wrong_order: EqualsAutograd: not autograd's gradient
#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {

SwigluGradients swiglu_backward(const Tensor& x, const Tensor& w1, const Tensor& w2, const Tensor& w3,
                                const Tensor& dy) {
  const Tensor z = x.matmul(w1.t()), u = x.matmul(w3.t()), sigma = torch::sigmoid(z), silu = z * sigma;
  const Tensor dh = dy.matmul(w2), du = dh * (wrong("gate_without_silu") ? z : silu);
  const Tensor dz = dh * u * (wrong("slope_is_sigma") ? sigma : sigma * (1 + z * (1 - sigma)));
  const Tensor dx = wrong("one_way_to_the_input") ? dz.matmul(w1) : dz.matmul(w1) + du.matmul(w3);
  const Tensor dw1 = dz.t().matmul(x);
  return {dx, wrong("rows_in_the_wrong_order") ? dw1.flip(0) : dw1, dy.t().matmul(silu * u), du.t().matmul(x)};
}

}  // namespace folio::exercises
