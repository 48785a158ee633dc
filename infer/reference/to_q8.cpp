#include <algorithm>
#include <bit>
#include <cmath>

#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

void to_q8(const float* x, size_t n, Q8* quants, F16* scales) {
  for (size_t first = 0; first < n; first += kQ8Group) {
    const size_t end = std::min(n, first + kQ8Group);
    uint32_t largest = 0;  // bits of the largest |x|; as integers, they sort by magnitude, NaN last
    for (size_t i = first; i < end; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
    const float exact = std::bit_cast<float>(largest) / 127.0F;
    F16& rounded = scales[first / kQ8Group];
    to_f16(&exact, 1, &rounded);
    const float scale = widened(rounded);
    const float inverse = 1.0F / scale;
    for (size_t i = first; i < end; ++i) {
      const bool none = scale == 0.0F || !std::isfinite(scale);
      const float quant = none ? 0.0F : std::clamp(std::nearbyint(x[i] * inverse), -127.0F, 127.0F);
      quants[i].quant = static_cast<int8_t>(quant);
    }
  }
}

}  // namespace folio::infer::kernels::reference
