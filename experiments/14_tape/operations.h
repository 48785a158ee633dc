// The operations of the tape: each computes a value and records its backward function. All throw core::Error for
// mismatched shapes. matmul() also accepts a single matrix b, which it multiplies with each matrix of the stack a.
#pragma once

#include <cstdint>
#include <span>

#include "experiments/14_tape/tape.h"

namespace folio::tape {

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);  ///< elementwise product
Tensor operator*(const Tensor& a, double factor);
Tensor matmul(const Tensor& a, const Tensor& b);  ///< [S, N, K] · [S, K, M] or [1, K, M] -> [S, N, M]
Tensor transpose(const Tensor& a);                ///< [S, N, M] to [S, M, N]
Tensor sum(const Tensor& a);                      ///< sum of all elements, [1, 1, 1]
Tensor causal_softmax(const Tensor& scores);      ///< [S, T, T]: softmax of row t over columns 0 .. t; else 0
/// Returns the rows `ids` of a table [1, V, D], split into S = `stack` matrices: [S, ids.size() / S, D].
Tensor look_up(const Tensor& table, std::span<const int32_t> ids, int64_t stack = 1);
/// Returns the mean of −ln softmax(row)[target] over the rows of logits [S, N, V]: [1, 1, 1]. Needs S · N targets.
Tensor cross_entropy(const Tensor& logits, std::span<const int32_t> targets);

}  // namespace folio::tape
