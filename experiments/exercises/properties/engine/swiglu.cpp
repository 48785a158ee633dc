// Tests of SwiGLU: zero inputs, the effect of each input, large gates, and equality with the reference.
#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/properties/check.h"
#include "experiments/exercises/properties/engine/reference.h"

namespace folio::exercises {
namespace {

Floats gated(const Floats& gate, const Floats& up) {
  Floats out(gate.size(), -99.0F);
  swiglu(gate.data(), up.data(), gate.size(), out.data());
  return out;
}

TEST(SwiGlu, AGateOfZeroGivesZero) {
  expect_close(gated({0.0F, 0.0F}, {3.0F, -5.0F}), {0.0F, 0.0F}, 0.0,
               "silu(0) is 0. 1.5 is what sigmoid(gate) * up gives: silu(gate) is gate * sigmoid(gate).");
}

TEST(SwiGlu, AnUpOfZeroGivesZero) {
  expect_close(gated({2.0F, -3.0F}, {0.0F, 0.0F}), {0.0F, 0.0F}, 0.0,
               "The gate lets through what is in up, here nothing: silu(gate) is multiplied by up.");
}

TEST(SwiGlu, TwiceUpIsTwiceTheOutput) {
  const Floats once = gated({1.0F, 1.0F}, {1.0F, -2.0F});
  expect_close(gated({1.0F, 1.0F}, {2.0F, -4.0F}), {2.0F * once[0], 2.0F * once[1]}, 1e-6,
               "up is a plain factor. It isn't where the two inputs are swapped: silu is taken of the gate.");
}

TEST(SwiGlu, TheGateGoesThroughSilu) {
  expect_close(gated({1.0F, -1.0F}, {1.0F, 1.0F}),
               {static_cast<float>(1.0 / (1.0 + std::exp(-1.0))), static_cast<float>(-1.0 / (1.0 + std::exp(1.0)))},
               1e-6,
               "These are silu(1) and silu(-1). For 1, ReLU gives 1, GELU gives 0.841, and a forgotten minus in "
               "exp(-gate) 0.269.");
}

TEST(SwiGlu, LargeGatesStayFinite) {
  expect_close(gated({200.0F, -200.0F}, {1.0F, 1.0F}), {200.0F, 0.0F}, 1e-6,
               "exp(200) is infinite in floats, and infinite / infinite is NaN. Divide by 1 + exp(-gate) instead of "
               "computing exp(gate) / (1 + exp(gate)).");
}

// Tolerance: the reference's exp is accurate to 2 units in the last place; outputs are below 16.
TEST(SwiGlu, EqualsTheReference) {
  for (const size_t n : {1, 2, 7, 64, 100}) {
    Floats gate = random_floats(n, 1);
    for (float& value : gate) value *= 16.0F;
    const Floats up = random_floats(n, 2);
    Floats expected(n);
    reference::swiglu(gate.data(), up.data(), n, expected.data());
    expect_close(gated(gate, up), expected, 16.0 * 8.0 * 0x1p-24, std::to_string(n) + " random numbers.");
  }
}

}  // namespace
}  // namespace folio::exercises
