// The vector step, included by one file per instruction set, which must define FOLIO_STUDY_LANES: floats per vector.
#pragma once

#include "experiments/16_kernels/steps.h"
#include "experiments/16_kernels/vectors.h"

namespace folio::experiments {
namespace {

using Vec = float __attribute__((vector_size(FOLIO_STUDY_LANES * sizeof(float))));

void product(const Product& p, size_t begin, size_t end) {
  Direct memory;
  if (p.n == 1) {
    vector_tiles<Vec, 1>(memory, p, begin, end);
  } else {
    vector_tiles<Vec, 2>(memory, p, begin, end);
  }
}

float multiply_adds(size_t rounds) {
  Vec sum[kPeakSums];
  // The sums start with distinct values, because the compiler would merge equal sums.
  for (size_t i = 0; i < kPeakSums; ++i) sum[i] = Vec{} + static_cast<float>(i);
  const Vec a = Vec{} + 0.5F;
  for (size_t round = 0; round < rounds; ++round) {
    for (Vec& s : sum) s = s * a + a;
  }
  float total = 0.0F;
  for (const Vec& s : sum) total += s[0];
  return total;
}

}  // namespace
}  // namespace folio::experiments
