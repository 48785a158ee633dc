// RoPE in place: at position p pair i of each query and key becomes (u cos - v sin, u sin + v cos). A rotation is
// orthogonal, so its backward pass is the rotation by the opposite angle, of the gradient, in place too.
#pragma once

#include "train/fused/numbers.h"

namespace folio::train::fused {
namespace {

template <typename T>
void rotate(T* qkv, const AttentionShape& shape, const Rotations<T>& rotations, bool inverse, size_t first, size_t n) {
  using R = Real<T>;
  const size_t n_pairs = shape.head_dim / 2;
  const R sign = inverse ? -1 : 1;
  const auto turn = [&](T& first_half, T& second_half, R cos, R sin) {
    const R u = real(first_half), v = real(second_half);
    first_half = rounded<T>(u * cos - v * sin);
    second_half = rounded<T>(u * sin + v * cos);
  };
  for (size_t i = 0; i < n; ++i, qkv += shape.qkv_dim()) {
    const size_t position = (first + i) % shape.n_positions;
    const R* cos = rotations.cos + position * n_pairs;
    const R* sin = rotations.sin + position * n_pairs;
    for (size_t head = 0; head < shape.n_heads + shape.n_kv_heads; ++head) {
      T* x = qkv + head * shape.head_dim;
      if (rotations.pairs == core::RopePairs::Adjacent) {
#pragma omp simd
        for (size_t p = 0; p < n_pairs; ++p) turn(x[2 * p], x[2 * p + 1], cos[p], sign * sin[p]);
      } else {
#pragma omp simd
        for (size_t p = 0; p < n_pairs; ++p) turn(x[p], x[n_pairs + p], cos[p], sign * sin[p]);
      }
    }
  }
}

}  // namespace
}  // namespace folio::train::fused
