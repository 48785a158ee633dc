// RoPE: rotates adjacent pairs.
#pragma once

#include "infer/cpu/vec_math.h"

namespace folio::infer::kernels {
namespace {

void rope(float* x, const float* cos, const float* sin, size_t n_heads, size_t head_dim) {
  for (size_t h = 0; h < n_heads; ++h) {
    float* head = x + h * head_dim;
    for_lanes(head_dim, [&](size_t d, size_t n) {
      const Vec v = Vec::load_first(head + d, n);
      const Vec turned = v.swap_pairs() * Vec::load_first(sin + d, n);
      Vec::fma(v, Vec::load_first(cos + d, n), turned).store_first(head + d, n);
    });
  }
}

}  // namespace
}  // namespace folio::infer::kernels
