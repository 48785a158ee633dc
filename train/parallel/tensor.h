// Tensor parallelism: the matrices of a layer are divided among t ranks, and its tokens, too. wq, wk, wv, w1 and w3
// are cut by rows, their outputs: a rank has whole heads, and as many hidden units. wo and w2 are cut by columns, their
// inputs, and so a rank's output is one of t terms of the sum.
//
//   rank 0   x [B, T/2, D] ─┐ gather             ┌─▶ heads 0 .. H/2 - 1 ──▶ term ─┐ sum, and  ┌─▶ y [B, T/2, D]
//                           ├────▶ x [B, T, D] ──┤                                ├───────────┤
//   rank 1   x [B, T/2, D] ─┘                    └─▶ heads H/2 .. H - 1 ──▶ term ─┘ scatter   └─▶ y [B, T/2, D]
//
// Norms, residuals and dropout of branches work on a rank's own tokens (sequence parallelism). Sent by a rank in a
// forward pass of attention or feed-forward: (t - 1)/t · B T D numbers in each of the two; in the backward pass the
// same. Sources: Shoeybi et al., "Megatron-LM", 2019, section 3; Korthikanti et al., "Reducing Activation Recomputation
// in Large Transformer Models", 2022, section 4.2.2.
#pragma once

#include <torch/nn/modules/container/any.h>

#include "train/parallel/group.h"

namespace folio::train::parallel {

/// `inner` is an Attention or SwiGLU whose heads or hidden units are this rank's, with the whole width D. The module
/// maps x [B, T/t, D] to one of the same shape, and has inner's children under their own names. With `starts` [B, T],
/// inner gets both. A group of one: inner itself. The group has to outlive the module and its graphs.
[[nodiscard]] torch::nn::AnyModule tensor_parallel(torch::nn::AnyModule inner, Group& tensor);

}  // namespace folio::train::parallel
