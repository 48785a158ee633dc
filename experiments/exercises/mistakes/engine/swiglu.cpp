#include <cmath>

#include "experiments/exercises/mistakes/mistakes.h"
#include "experiments/exercises/properties/engine/reference.h"

namespace folio::exercises {
namespace {

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

void sigmoid_instead_of_silu(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = sigmoid(gate[i]) * up[i];
}

void no_up(const float* gate, const float* /*up*/, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = gate[i] * sigmoid(gate[i]);
}

void inputs_swapped(const float* gate, const float* up, size_t n, float* out) { reference::swiglu(up, gate, n, out); }

void relu(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = std::max(0.0F, gate[i]) * up[i];
}

void gelu(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = gate[i] * 0.5F * (1.0F + std::erf(gate[i] / std::sqrt(2.0F))) * up[i];
}

void minus_forgotten(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0F + std::exp(gate[i])) * up[i];
}

void infinite_over_infinite(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = gate[i] * std::exp(gate[i]) / (1.0F + std::exp(gate[i])) * up[i];
}

const std::vector<Mistake<decltype(swiglu)>> kMistakes{
    {"sigmoid_instead_of_silu", "AGateOfZeroGivesZero", "is 1.5, but", sigmoid_instead_of_silu},
    {"no_up", "AnUpOfZeroGivesZero", "multiplied by up", no_up},
    {"inputs_swapped", "TwiceUpIsTwiceTheOutput", "inputs are swapped", inputs_swapped},
    {"relu", "TheGateGoesThroughSilu", "is 1, but", relu},
    {"gelu", "TheGateGoesThroughSilu", "is 0.841345, but", gelu},
    {"minus_forgotten", "TheGateGoesThroughSilu", "is 0.268941, but", minus_forgotten},
    {"infinite_over_infinite", "LargeGatesStayFinite", "infinite / infinite", infinite_over_infinite},
};

}  // namespace

void swiglu(const float* gate, const float* up, size_t n, float* out) {
  chosen(kMistakes, reference::swiglu)(gate, up, n, out);
}

}  // namespace folio::exercises
