// Positions that attention may attend to; where it is not written out, LibTorch's is_causal or a loop's bound instead.
//
//     causal           in rows of two sequences, 0 1 2 | 3 4
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

/// True where position t (a row) attends to position s <= t, [T, T]. With packed sequences [B, 1, T, T]: starts[b, t],
/// int64 [B, T], is the first position of the sequence that contains t, which attends to nothing before it.
[[nodiscard]] torch::Tensor causal_mask(int64_t T, torch::Device device, const torch::Tensor& starts = {});

}  // namespace folio::nn
