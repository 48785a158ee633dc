#include <bit>
#include <cmath>
#include <cstdint>

#include "core/exp_constants.h"
#include "infer/reference/reference.h"

namespace folio::infer::kernels::reference {

float exp(float x) {
  using namespace core::exp_constants;
  x = x > kLow ? x : kLow;  // NaN becomes kLow, as in the vector kernels
  x = x < kHigh ? x : kHigh;
  const float n = std::nearbyint(x * kLog2E);
  float r = std::fma(n, -kLn2High, x);
  r = std::fma(n, -kLn2Low, r);
  float p = kPolynomial[0];
  for (int i = 1; i < 6; ++i) p = std::fma(p, r, kPolynomial[i]);
  const float y = std::fma(p, r * r, r) + 1.0F;
  const auto power = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return y * power;
}

}  // namespace folio::infer::kernels::reference
