// What can be recorded on a tape: each operation computes its value and leaves the rule of its gradient. All throw
// core::Error for shapes that don't fit. Where b is a single matrix and a is a stack, each matrix of the stack meets
// the same b.
#pragma once

#include <cstdint>
#include <span>

#include "experiments/14_tape/tape.h"

namespace folio::tape {

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);  ///< number by number
Tensor operator*(const Tensor& a, double factor);
Tensor matmul(const Tensor& a, const Tensor& b);  ///< [S, N, K] by [S, K, M], or by [1, K, M] for all S; to [S, N, M]
Tensor transpose(const Tensor& a);                ///< [S, N, M] to [S, M, N]
Tensor sum(const Tensor& a);                      ///< of all numbers, to [1, 1, 1]
Tensor causal_softmax(const Tensor& scores);      ///< [S, T, T]: row t over columns 0 .. t, and 0 after them
/// The rows of a table [1, V, D] with the numbers `ids`, S after each other: [S, ids / S, D].
Tensor look_up(const Tensor& table, std::span<const int32_t> ids, int64_t stack = 1);
/// The mean of −ln softmax(row)[target] over the rows of logits [S, N, V]; S · N targets. To [1, 1, 1].
Tensor cross_entropy(const Tensor& logits, std::span<const int32_t> targets);

}  // namespace folio::tape
