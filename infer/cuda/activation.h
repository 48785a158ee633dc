// What the gate of a feed-forward network goes through, with the bits of reference/swiglu.cpp.
#pragma once

#include "infer/cuda/kernels.h"
#include "infer/cuda/numbers.h"

namespace folio::infer::gpu {

[[nodiscard]] __device__ inline float gated(Activation activation, float gate, float up) {
  constexpr float kGeluFactor = 1.5957691216F;  // 2 sqrt(2 / π)
  constexpr float kGeluCube = 0.044715F;
  if (activation == Activation::Clamped) {  // a NaN stays one
    constexpr float kLimit = 7.0F;
    constexpr float kSlope = 1.702F;
    const float g = gate > kLimit ? kLimit : gate;
    const float most = up > kLimit ? kLimit : up;
    const float u = most < -kLimit ? -kLimit : most;
    return g / (1.0F + exp_of(0.0F - kSlope * g)) * (u + 1.0F);
  }
  const float inner = activation == Activation::Silu ? gate : fmaf(gate * gate * gate, kGeluCube, gate) * kGeluFactor;
  return gate / (1.0F + exp_of(0.0F - inner)) * up;
}

}  // namespace folio::infer::gpu
