#include <cmath>

#include "core/float16.h"
#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }

float add_pair(BF16Pair a, BF16Pair b, float sum) {
  for (const size_t i : {1, 0}) sum = flushed(std::fma(flushed(widened(a.of[i])), flushed(widened(b.of[i])), sum));
  return sum;
}

void to_fast(const float* x, size_t k, BF16* out) {
  for (size_t i = 0; i < panel_columns(k); ++i) out[i] = {core::float_to_bf16(i < k ? flushed(x[i]) : 0.0F)};
}

void matmul_fast(const BF16* x, size_t n_rows, const PanelMatrix& weight, size_t k, size_t row_begin, size_t row_end,
                 float* out, size_t out_stride, bool accumulate) {
  for (size_t n = 0; n < n_rows; ++n) {
    const BF16* row = x + n * panel_columns(k);
    for (size_t r = row_begin; r < row_end; ++r) {
      float total = 0.0F;
      for (size_t c = 0; c < panel_columns(k); c += 2) {
        const BF16* of_row = weight.panels + in_panels(k, r, c);
        total = add_pair({row[c], row[c + 1]}, {of_row[0], of_row[1]}, total);
      }
      float& y = out[n * out_stride + r];
      y = accumulate ? y + total : total;
    }
  }
}

}  // namespace folio::infer::kernels::reference
