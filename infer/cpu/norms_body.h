// RMSNorm. The sum of squares is the dot product of the row with itself, with the summation order of matmul.
#pragma once

#include <cmath>

#include "infer/cpu/matmul_body.h"
#include "infer/cpu/vec_math.h"

namespace folio::infer::kernels {
namespace {

float dot_self(const float* x, size_t k) {
  float total = 0.0F;
  for (size_t chunk = 0; chunk < k; chunk += kChunk) {
    Vec sum;
    add_chunk<1, 1, Prefetch::None>(&x, &x, chunk, std::min(k, chunk + kChunk), 0, &sum);
    total += join_lanes(sum);
  }
  return total;
}

void rms_norm(const float* x, const float* weight, float eps, size_t dim, float* out) {
  const float mean_square = dot_self(x, dim) / static_cast<float>(dim);
  const Vec inverse = Vec::all(1.0F / std::sqrt(mean_square + eps));
  for_lanes(dim, [&](size_t i, size_t n) {
    (Vec::load_first(x + i, n) * inverse * Vec::load_first(weight + i, n)).store_first(out + i, n);
  });
}

}  // namespace
}  // namespace folio::infer::kernels
