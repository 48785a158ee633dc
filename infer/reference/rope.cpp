#include <cmath>

#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

void rope(float* x, const float* cos, const float* sin, size_t n_heads, size_t head_dim) {
  for (size_t h = 0; h < n_heads; ++h) {
    float* head = x + h * head_dim;
    for (size_t d = 0; d < head_dim; d += 2) {
      const float even = head[d];
      const float odd = head[d + 1];
      head[d] = std::fma(even, cos[d], odd * sin[d]);
      head[d + 1] = std::fma(odd, cos[d + 1], even * sin[d + 1]);
    }
  }
}

}  // namespace folio::infer::kernels::reference
