#include <cmath>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

void rms_norm(const float* x, const float* weight, float eps, size_t n_positions, size_t dim, float* out) {
  for (size_t t = 0; t < n_positions; ++t) {
    const float* x_t = x + t * dim;
    float sum = 0.0F;
    for (size_t i = 0; i < dim; ++i) sum += x_t[i] * x_t[i];
    const float rms = std::sqrt(sum / static_cast<float>(dim) + eps);
    for (size_t i = 0; i < dim; ++i) out[t * dim + i] = x_t[i] / rms * weight[i];
  }
}

}  // namespace folio::exercises
