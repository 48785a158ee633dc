#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

template <typename Weight>
void add_low_rank(const float* t, size_t rank, const Weight* b, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) {
    out[i] += dot(t, b + i / kLanes * rank * kLanes + i % kLanes, rank, kLanes);
  }
}

template AddLowRank<float> add_low_rank<float>;
template AddLowRank<BF16> add_low_rank<BF16>;
template AddLowRank<Q8> add_low_rank<Q8>;

}  // namespace folio::infer::kernels::reference
