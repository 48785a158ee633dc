// Adds a LoRA adapter's low-rank update to a row, sixteen outputs at a time, one per vector lane. Sixteen vectors store
// the sixteen partial sums of each output, so adding the vectors combines the partial sums.
#pragma once

#include <algorithm>

#include "infer/cpu/vec_math.h"

namespace folio::infer::kernels {
namespace {

// Adds the LoRA update t · bᵀ to out (n), with t (rank). Computes only the first kLanesUsed of the 16 partial sums.
// kLanesUsed must be at least min(rank, 16), so that the other sums are 0.
template <size_t kLanesUsed, typename Weight>
void add_low_rank_lanes(const float* t, size_t rank, const Weight* b, size_t n, float* out) {
  for_lanes(n, [&](size_t i, size_t count) {
    const Weight* panel = b + i * rank;
    Vec total = Vec::zero();
    for (size_t chunk = 0; chunk < rank; chunk += kChunk) {
      const size_t end = std::min(rank, chunk + kChunk);
      Vec lane[kLanes];
      for (Vec& sum : lane) sum = Vec::zero();
      for (size_t j = chunk; j < end; j += kLanes) {
        for (size_t l = 0; l < kLanesUsed; ++l) {
          if (j + l >= end) break;
          lane[l] = Vec::fma(Vec::all(t[j + l]), Vec::load(panel + (j + l) * kLanes), lane[l]);
        }
      }
      for (size_t half = kLanes / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; ++l) lane[l] = lane[l] + lane[l + half];
      }
      total = total + lane[0];
    }
    (Vec::load_first(out + i, count) + total).store_first(out + i, count);
  });
}

template <typename Weight>
void add_low_rank(const float* t, size_t rank, const Weight* b, size_t n, float* out) {
  if (rank <= 8) return add_low_rank_lanes<8>(t, rank, b, n, out);
  add_low_rank_lanes<kLanes>(t, rank, b, n, out);
}

}  // namespace
}  // namespace folio::infer::kernels
