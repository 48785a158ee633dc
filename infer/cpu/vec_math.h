// Helpers of the vector kernels: e^x, soft cap, the sum of a Vec's lanes, and a loop over sixteen elements at a time.
// Included after an instruction set's vec_*.h.
#pragma once

#include <algorithm>

#include "core/exp_constants.h"
#include "infer/reference/kernels.h"

namespace folio::infer::kernels {
namespace {

[[gnu::always_inline]] inline Vec exp(Vec x) {
  using namespace core::exp_constants;
  x = Vec::max(x, Vec::all(kLow));
  x = Vec::min(x, Vec::all(kHigh));
  const Vec n = Vec::round(x * Vec::all(kLog2E));
  Vec r = Vec::fma(n, Vec::all(-kLn2High), x);
  r = Vec::fma(n, Vec::all(-kLn2Low), r);
  Vec p = Vec::all(kPolynomial[0]);
  for (int i = 1; i < 6; ++i) p = Vec::fma(p, r, Vec::all(kPolynomial[i]));
  return (Vec::fma(p, r * r, r) + Vec::all(1.0F)) * Vec::power_of_two(n);
}

// Returns cap · tanh(x / cap), with tanh(y) = 1 - 2 / (e^2y + 1).
inline Vec soft_cap(Vec x, float cap) {
  const Vec e = exp(x * Vec::all(2.0F / cap));
  return Vec::all(cap) - Vec::all(2.0F * cap) / (e + Vec::all(1.0F));
}

inline float join_lanes(Vec v) {
  const Vec sums[16] = {v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v};
  float y = 0.0F;
  Vec::join_lanes(sums).store_first(&y, 1);
  return y;
}

// Calls body(i, n) for elements [i, i + n) of `count`, sixteen at a time; n < 16 only in the last call.
template <typename Body>
inline void for_lanes(size_t count, Body&& body) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, kLanes);
  if (i < count) body(i, count - i);
}

}  // namespace
}  // namespace folio::infer::kernels
