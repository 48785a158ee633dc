// Tensor parallelism: a layer's matrices and tokens are divided among t ranks. wq, wk, wv, w1 and w3 are cut by rows: a
// rank has some heads and hidden units. wo and w2 are cut by columns, so a rank's output is one of t terms of a sum.
//
//   rank 0   x [B, T/2, D] ─┐ gather             ┌─▶ heads 0 .. H/2 - 1 ──▶ term ─┐ sum, and  ┌─▶ y [B, T/2, D]
//                           ├────▶ x [B, T, D] ──┤                                ├───────────┤
//   rank 1   x [B, T/2, D] ─┘                    └─▶ heads H/2 .. H - 1 ──▶ term ─┘ scatter   └─▶ y [B, T/2, D]
//
// Norms, residual sums and the branches' dropout process a rank's own tokens (sequence parallelism). A rank sends
// (t - 1)/t · B T D elements per gather and per scatter. Shapes: B sequences, T positions, D model width, H heads.
// Sources: Shoeybi et al., "Megatron-LM", 2019, section 3; Korthikanti et al., "Reducing Activation Recomputation in
// Large Transformer Models", 2022, section 4.2.2.
#pragma once

#include <torch/nn/modules/container/any.h>

#include "train/parallel/group.h"

namespace folio::train::parallel {

/// Wraps `inner`, an Attention or SwiGLU with this rank's heads or hidden units. The result maps x [B, T/t, D] (B
/// sequences of T positions, t ranks, model width D) to the same shape and passes `starts` [B, T] to `inner`, whose
/// children keep their names. Returns `inner` for one rank. The group must outlive the module and its graphs.
[[nodiscard]] torch::nn::AnyModule tensor_parallel(torch::nn::AnyModule inner, Group& tensor);

}  // namespace folio::train::parallel
