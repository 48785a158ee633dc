#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/training/training.h"

namespace folio::exercises {
namespace {

enum class Slip { None, GateForgotten, SlopeIsSigma, OneWay, Transposed };
using SlipOf = Slip();

Slip no_slip() { return Slip::None; }
Slip gate_without_silu() { return Slip::GateForgotten; }
Slip slope_is_sigma() { return Slip::SlopeIsSigma; }
Slip one_way_to_the_input() { return Slip::OneWay; }
Slip rows_in_the_wrong_order() { return Slip::Transposed; }

const std::vector<Mistake<SlipOf>> kSwigluBackwardMistakes{
    {"gate_without_silu", "TheGateIsAFactorOfTheOtherWay", "passes to each factor the other one", gate_without_silu},
    {"slope_is_sigma", "TheSlopeOfSiluHasTwoTerms", "first half of the rule", slope_is_sigma},
    {"one_way_to_the_input", "BothWaysToTheInputAddUp", "x is used twice", one_way_to_the_input},
    {"rows_in_the_wrong_order", "EqualsAutograd", "not autograd's gradient", rows_in_the_wrong_order},
};

}  // namespace

SwigluGradients swiglu_backward(const Tensor& x, const Tensor& w1, const Tensor& w2, const Tensor& w3,
                                const Tensor& dy) {
  const Slip slip = chosen(kSwigluBackwardMistakes, no_slip)();
  const Tensor z = x.matmul(w1.t()), u = x.matmul(w3.t()), sigma = torch::sigmoid(z), silu = z * sigma;
  const Tensor dh = dy.matmul(w2), du = dh * (slip == Slip::GateForgotten ? z : silu);
  const Tensor dz = dh * u * (slip == Slip::SlopeIsSigma ? sigma : sigma * (1 + z * (1 - sigma)));
  const Tensor dx = slip == Slip::OneWay ? dz.matmul(w1) : dz.matmul(w1) + du.matmul(w3);
  const Tensor dw1 = dz.t().matmul(x);
  return {dx, slip == Slip::Transposed ? dw1.flip(0) : dw1, dy.t().matmul(silu * u), du.t().matmul(x)};
}

}  // namespace folio::exercises
