#include "core/float16.h"
#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

void to_fast(const float* x, size_t n, size_t k, BF16* out) {
  for (size_t i = 0; i < k; ++i) {
    for (size_t t = 0; t < kFastInputs; ++t) {
      const float value = t < n ? x[t * k + i] : 0.0F;
      out[(i / 2 * kFastInputs + t) * 2 + i % 2] = {core::float_to_bf16(value)};
    }
  }
}

void matmul_fast(const BF16* x, size_t n_rows, const BF16* weight, size_t k, size_t row_begin, size_t row_end,
                 float* out, size_t out_stride, bool accumulate) {
  for (size_t n = 0; n < n_rows; ++n) {
    const BF16* tile = x + n / kFastInputs * kFastInputs * k;
    for (size_t r = row_begin; r < row_end; ++r) {
      float total = 0.0F;
      for (size_t i = 0; i < k; ++i) {
        total += widened(tile[(i / 2 * kFastInputs + n % kFastInputs) * 2 + i % 2]) * widened(weight[r * k + i]);
      }
      float& y = out[n * out_stride + r];
      y = accumulate ? y + total : total;
    }
  }
}

}  // namespace folio::infer::kernels::reference
