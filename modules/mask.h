// The causal mask: the positions that each position may attend to. Kernels with an is_causal flag do not need it.
//
//     causal           two packed sequences, 0 1 2 | 3 4
//     t = 0  x . . . .        0  x . . . .
//         1  x x . . .        1  x x . . .
//         2  x x x . .        2  x x x . .         y = softmax(where(mask, scores, -∞)) v
//         3  x x x x .        3  . . . x .
//         4  x x x x x        4  . . . x x
//
//     torch::Tensor scores = q.matmul(k.transpose(-2, -1)).masked_fill(~nn::causal_mask(T, q.device()), -INFINITY);
//
// Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.3.
#pragma once

#include <torch/types.h>

namespace folio::nn {

/// Returns a mask [T, T], true where position t (row) may attend to position s <= t (column). For packed sequences, it
/// is [B, 1, T, T] and s >= starts[b, t]: `starts`, int64 [B, T], is the first position of t's sequence.
[[nodiscard]] torch::Tensor causal_mask(int64_t T, torch::Device device, const torch::Tensor& starts = {});

}  // namespace folio::nn
