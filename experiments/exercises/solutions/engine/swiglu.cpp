#include <cmath>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

void swiglu(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
}

}  // namespace folio::exercises
