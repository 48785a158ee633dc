// The mistakes, each with the test that must fail first and words of its message:
//     gate_added: TheGateMultiplies: A sum does not have that
//     sigmoid_instead_of_silu: ALargeGateIsKept: 1000 is what the sigmoid gives
//     exp_of_z: ALargeGateIsKept: e^1000 is infinite
//     no_silu: ANegativeGateIsShut: no silu around w1 x
//     relu_instead_of_silu: TheGateIsRoundNotSharp: ReLU cuts it off
//     gate_and_up_mixed_up: W1IsTheGate: mixed up
//     gate_without_gradient: GradientsEqualCentralDifferences: taken out of the graph
#include <utility>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {

Tensor SwiGLUImpl::forward(const Tensor& x_BTD) {
  Tensor gate = w1->forward(x_BTD), up = w3->forward(x_BTD);
  if (wrong("gate_and_up_mixed_up")) std::swap(gate, up);
  if (wrong("gate_without_gradient")) gate = gate.detach();
  Tensor silu = gate * torch::sigmoid(gate);
  if (wrong("sigmoid_instead_of_silu")) silu = torch::sigmoid(gate);
  if (wrong("exp_of_z")) silu = gate * gate.exp() / (1 + gate.exp());
  if (wrong("no_silu")) silu = gate;
  if (wrong("relu_instead_of_silu")) silu = torch::relu(gate);
  return w2->forward(wrong("gate_added") ? silu + up : silu * up);
}

}  // namespace folio::exercises
