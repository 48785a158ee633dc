#include <cmath>

#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

void rms_norm(const float* x, const float* weight, float eps, size_t dim, float* out) {
  const float mean_square = dot(x, x, dim) / static_cast<float>(dim);
  const float inverse = 1.0F / std::sqrt(mean_square + eps);
  for (size_t i = 0; i < dim; ++i) out[i] = x[i] * inverse * weight[i];
}

}  // namespace folio::infer::kernels::reference
