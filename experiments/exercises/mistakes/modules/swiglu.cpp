#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/modules/modules.h"

namespace folio::exercises {
namespace {

using Hidden = Tensor(const Tensor& gate, const Tensor& up);

Tensor sound_hidden(const Tensor& gate, const Tensor& up) { return gate * torch::sigmoid(gate) * up; }
Tensor gate_added(const Tensor& gate, const Tensor& up) { return gate * torch::sigmoid(gate) + up; }
Tensor sigmoid_instead_of_silu(const Tensor& gate, const Tensor& up) { return torch::sigmoid(gate) * up; }
Tensor no_silu(const Tensor& gate, const Tensor& up) { return gate * up; }
Tensor relu_instead_of_silu(const Tensor& gate, const Tensor& up) { return torch::relu(gate) * up; }
Tensor gate_and_up_mixed_up(const Tensor& gate, const Tensor& up) { return sound_hidden(up, gate); }
Tensor gate_without_gradient(const Tensor& gate, const Tensor& up) { return sound_hidden(gate.detach(), up); }

const std::vector<Mistake<Hidden>> kSwigluMistakes{
    {"gate_added", "TheGateMultiplies", "A sum does not have that", gate_added},
    {"sigmoid_instead_of_silu", "ALargeGateIsKept", "20 is what the sigmoid gives", sigmoid_instead_of_silu},
    {"no_silu", "ANegativeGateIsShut", "no silu around w1 x", no_silu},
    {"relu_instead_of_silu", "TheGateIsRoundNotSharp", "ReLU cuts it off", relu_instead_of_silu},
    {"gate_and_up_mixed_up", "W1IsTheGate", "mixed up", gate_and_up_mixed_up},
    {"gate_without_gradient", "GradientsEqualCentralDifferences", "taken out of the graph", gate_without_gradient},
};

}  // namespace

Tensor SwiGLUImpl::forward(const Tensor& x_BTD) {
  return w2->forward(chosen(kSwigluMistakes, sound_hidden)(w1->forward(x_BTD), w3->forward(x_BTD)));
}

}  // namespace folio::exercises
