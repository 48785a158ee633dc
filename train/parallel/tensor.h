// Tensor parallelism: the matrices and the tokens of a layer are divided among t ranks. wq, wk, wv, w1 and w3 are cut
// by rows: a rank has some of the heads and hidden units. wo and w2 are cut by columns, and so a rank's output is one
// of t terms of the sum.
//
//   rank 0   x [B, T/2, D] ─┐ gather             ┌─▶ heads 0 .. H/2 - 1 ──▶ term ─┐ sum, and  ┌─▶ y [B, T/2, D]
//                           ├────▶ x [B, T, D] ──┤                                ├───────────┤
//   rank 1   x [B, T/2, D] ─┘                    └─▶ heads H/2 .. H - 1 ──▶ term ─┘ scatter   └─▶ y [B, T/2, D]
//
// Norms, residuals and dropout of branches work on a rank's own tokens (sequence parallelism). A rank sends
// (t - 1)/t · B T D elements in each of the two, forward and backward. Sources: Shoeybi et al., "Megatron-LM", 2019,
// section 3; Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022, section 4.2.2.
#pragma once

#include <torch/nn/modules/container/any.h>

#include "train/parallel/group.h"

namespace folio::train::parallel {

/// `inner` is an Attention or SwiGLU with this rank's heads or hidden units and the whole width D. The module maps x
/// [B, T/t, D] to one of the same shape, and has inner's children under their own names. `starts` [B, T] is passed to
/// inner. For a group of one, inner itself. The group must outlive the module and its graphs.
[[nodiscard]] torch::nn::AnyModule tensor_parallel(torch::nn::AnyModule inner, Group& tensor);

}  // namespace folio::train::parallel
