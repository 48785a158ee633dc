#include <algorithm>
#include <cmath>

#include "experiments/exercises/serving/serving.h"

namespace folio::exercises {

Q8Block quantize(const Floats& x) {
  float largest = 0.0F;
  for (const float number : x) largest = std::max(largest, std::abs(number));
  Q8Block block{.scale = largest / 127.0F, .q = {}};
  if (largest == 0.0F) return block;
  for (size_t i = 0; i < kQ8Block; ++i) block.q[i] = static_cast<int8_t>(std::lround(x[i] / block.scale));
  return block;
}

float dot(const Q8Block& a, const Q8Block& b) {
  int32_t sum = 0;
  for (size_t i = 0; i < kQ8Block; ++i) sum += a.q[i] * b.q[i];
  return a.scale * b.scale * static_cast<float>(sum);
}

}  // namespace folio::exercises
