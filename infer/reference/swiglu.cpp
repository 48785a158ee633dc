#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

void swiglu(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0F + exp(-gate[i])) * up[i];
}

}  // namespace folio::infer::kernels::reference
