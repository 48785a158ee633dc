#include <cmath>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

void rope(float* x, size_t position, size_t n_heads, size_t head_dim, float theta) {
  for (size_t i = 0; i < head_dim / 2; ++i) {
    const float exponent = -2.0F * static_cast<float>(i) / static_cast<float>(head_dim);
    const float angle = static_cast<float>(position) * std::pow(theta, exponent);
    const float cos = std::cos(angle);
    const float sin = std::sin(angle);
    for (size_t h = 0; h < n_heads; ++h) {
      float* pair = x + h * head_dim + 2 * i;
      const float a = pair[0];
      const float b = pair[1];
      pair[0] = a * cos - b * sin;
      pair[1] = a * sin + b * cos;
    }
  }
}

}  // namespace folio::exercises
