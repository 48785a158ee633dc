// The mistakes, each with the test that must fail first and words of its message:
//     sigmoid_instead_of_silu: AGateOfZeroGivesZero: is 1.5, but
//     no_up: AnUpOfZeroGivesZero: multiplied by up
//     inputs_swapped: TwiceUpIsTwiceTheOutput: inputs are swapped
//     relu: TheGateGoesThroughSilu: is 1, but
//     gelu: TheGateGoesThroughSilu: is 0.841345, but
//     minus_forgotten: TheGateGoesThroughSilu: is 0.268941, but
//     infinite_over_infinite: LargeGatesStayFinite: infinite / infinite
#include <algorithm>
#include <cmath>
#include <utility>

#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/mistakes/mistakes.h"

namespace folio::exercises {
namespace {

float activated(float gate) {
  if (wrong("sigmoid_instead_of_silu")) return 1.0F / (1.0F + std::exp(-gate));
  if (wrong("relu")) return std::max(0.0F, gate);
  if (wrong("gelu")) return gate * 0.5F * (1.0F + std::erf(gate / std::sqrt(2.0F)));
  if (wrong("minus_forgotten")) return gate / (1.0F + std::exp(gate));
  if (wrong("infinite_over_infinite")) return gate * std::exp(gate) / (1.0F + std::exp(gate));
  return gate / (1.0F + std::exp(-gate));
}

}  // namespace

void swiglu(const float* gate, const float* up, size_t n, float* out) {
  if (wrong("inputs_swapped")) std::swap(gate, up);
  for (size_t i = 0; i < n; ++i) out[i] = activated(gate[i]) * (wrong("no_up") ? 1.0F : up[i]);
}

}  // namespace folio::exercises
