#include <algorithm>
#include <array>
#include <cmath>

#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

template <typename Weight>
void add_low_rank(const float* t, size_t rank, const Weight* b, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) {
    const Weight* row = b + i / kLanes * rank * kLanes + i % kLanes;
    float total = 0.0F;
    for (size_t chunk = 0; chunk < rank; chunk += kChunk) {
      std::array<float, kLanes> lane{};
      for (size_t j = chunk; j < std::min(rank, chunk + kChunk); ++j) {
        lane[j % kLanes] = std::fma(t[j], widened(row[j * kLanes]), lane[j % kLanes]);
      }
      total += join_lanes(lane);
    }
    out[i] += total;
  }
}

template AddLowRank<float> add_low_rank<float>;
template AddLowRank<BF16> add_low_rank<BF16>;
template AddLowRank<Q8> add_low_rank<Q8>;

}  // namespace folio::infer::kernels::reference
