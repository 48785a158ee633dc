#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

template <typename Weight>
void matmul(const float* x, size_t n_rows, const Weight* weight, size_t k, size_t row_begin, size_t row_end, float* out,
            size_t out_stride, bool accumulate) {
  for (size_t n = 0; n < n_rows; ++n) {
    for (size_t r = row_begin; r < row_end; ++r) {
      const float total = dot(x + n * k, weight + r * k, k);
      float& y = out[n * out_stride + r];
      y = accumulate ? y + total : total;
    }
  }
}

template Matmul<float> matmul<float>;
template Matmul<F16> matmul<F16>;
template Matmul<BF16> matmul<BF16>;
template Matmul<Q8> matmul<Q8>;

}  // namespace folio::infer::kernels::reference
