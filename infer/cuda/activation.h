// Gated activations of feed-forward networks, bit-identical to reference/swiglu.cpp.
#pragma once

#include "infer/cuda/inputs.h"
#include "infer/cuda/kernels.h"
#include "infer/cuda/numbers.h"

namespace folio::infer::gpu {

[[nodiscard]] __device__ inline float gated(Activation activation, float gate, float up) {
  constexpr float kGeluFactor = 1.5957691216F;  // 2 sqrt(2 / π), for GELU's tanh approximation
  constexpr float kGeluCube = 0.044715F;
  if (activation == Activation::Clamped) {  // comparisons with NaN are false, so NaN propagates
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

/// Sets gate = gated(gate, up) for one row and packs it as row `row` of `to`. The grid must be pack_grid(to). If a
/// block processes the whole row, it keeps up to kHeld * kRowThreads elements in registers.
template <Kind kKind, int kHeld>
__device__ void gate_and_pack(Activation activation, float* gate, const float* up, const PackedInputs& to, size_t row) {
  if constexpr (!kByRows<kKind>) {
    pack_part<kKind>(to, row, [&](size_t i) { return gate[i] = gated(activation, gate[i], up[i]); });
  } else {
    HeldRow<kHeld> held;
    HeldRow<kHeld> ups;
    hold(held, to.k, [&](size_t i) { return gate[i]; });
    hold(ups, to.k, [&](size_t i) { return up[i]; });
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {  // padding stays 0: gated(0, 0) = 0
      if (static_cast<size_t>(j) * kRowThreads < to.k) held.x[j] = gated(activation, held.x[j], ups.x[j]);
    }
    visit(
        held, to.k, [&](size_t i) { return gated(activation, gate[i], up[i]); },
        [&](size_t i, float x) { gate[i] = x; });
    pack_row<kKind>(to, row, held, [&](size_t i) { return gate[i]; });  // no barrier: each thread reads what it wrote
  }
}

}  // namespace folio::infer::gpu
