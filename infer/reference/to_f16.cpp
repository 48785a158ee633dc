#include <cmath>

#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

void to_f16(const float* x, size_t n, F16* out) {
  constexpr uint16_t kQuiet = 0x200;
  for (size_t i = 0; i < n; ++i) {
    out[i].bits = static_cast<uint16_t>(core::float_to_f16(x[i]) | (std::isnan(x[i]) ? kQuiet : 0U));
  }
}

}  // namespace folio::infer::kernels::reference
