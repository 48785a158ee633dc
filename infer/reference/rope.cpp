#include <cmath>

#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

void rope(float* x, const float* cos, const float* sin, size_t n_heads, size_t head_dim, core::RopePairs pairs) {
  const bool halves = pairs == core::RopePairs::Halves;
  for (size_t h = 0; h < n_heads; ++h) {
    float* head = x + h * head_dim;
    for (size_t pair = 0; pair < head_dim / 2; ++pair) {
      const size_t d = halves ? pair : 2 * pair;
      const size_t e = halves ? pair + head_dim / 2 : 2 * pair + 1;
      const float first = head[d];
      const float second = head[e];
      head[d] = std::fma(first, cos[d], second * sin[d]);
      head[e] = std::fma(second, cos[e], first * sin[e]);
    }
  }
}

}  // namespace folio::infer::kernels::reference
