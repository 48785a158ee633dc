#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

void matmul(const float* x, const float* weight, size_t n_rows, size_t n_in, size_t n_out, float* out) {
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t r = 0; r < n_out; ++r) {
      float sum = 0.0F;
      for (size_t i = 0; i < n_in; ++i) sum += x[row * n_in + i] * weight[r * n_in + i];
      out[row * n_out + r] = sum;
    }
  }
}

}  // namespace folio::exercises
