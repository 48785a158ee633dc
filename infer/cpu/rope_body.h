// RoPE on pairs of elements: (2 i, 2 i + 1), or (i, i + half) for a head of 2 * half elements.
#pragma once

#include "infer/cpu/vec_math.h"

namespace folio::infer::kernels {
namespace {

void rope_halves(float* head, const float* cos, const float* sin, size_t half) {
  for_lanes(half, [&](size_t d, size_t n) {
    const Vec first = Vec::load_first(head + d, n);
    const Vec second = Vec::load_first(head + half + d, n);
    Vec::fma(first, Vec::load_first(cos + d, n), second * Vec::load_first(sin + d, n)).store_first(head + d, n);
    Vec::fma(second, Vec::load_first(cos + half + d, n), first * Vec::load_first(sin + half + d, n))
        .store_first(head + half + d, n);
  });
}

void rope(float* x, const float* cos, const float* sin, size_t n_heads, size_t head_dim, core::RopePairs pairs) {
  for (size_t h = 0; h < n_heads; ++h) {
    float* head = x + h * head_dim;
    if (pairs == core::RopePairs::Halves) {
      rope_halves(head, cos, sin, head_dim / 2);
      continue;
    }
    for_lanes(head_dim, [&](size_t d, size_t n) {
      const Vec v = Vec::load_first(head + d, n);
      const Vec turned = v.swap_pairs() * Vec::load_first(sin + d, n);
      Vec::fma(v, Vec::load_first(cos + d, n), turned).store_first(head + d, n);
    });
  }
}

}  // namespace
}  // namespace folio::infer::kernels
