// Conversions, exp and aligned scratch memory for the kernels. Compiled once per instruction set, hence the unnamed
// namespace: the linker must not merge the versions.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/aligned_vector.h"
#include "core/exp_constants.h"
#include "train/fused/loops.h"

namespace folio::train::fused {
namespace {

inline float real(float x) { return x; }
inline double real(double x) { return x; }
inline float real(BFloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16U); }

template <typename T>
inline T rounded(Real<T> x) {
  return x;
}
/// Rounds a float to bfloat16: to nearest, ties to even.
template <>
inline BFloat16 rounded<BFloat16>(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return {static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

/// Returns e^x within 2 ulp, in a form that g++ vectorizes. e^x = 2^n e^r with integer n and |r| <= ln 2 / 2, where a
/// polynomial of degree 7 in r suffices. Returns 0 for x < -87, and e^88 for x > 88.
inline float exp(float x) {
  using namespace core::exp_constants;
  const float clamped = x < -87.0F ? -87.0F : x > 88.0F ? 88.0F : x;
  constexpr float kRound = 12582912.0F;  // 1.5 · 2^23: adding it rounds to an integer
  const float shifted = clamped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = kPolynomial[0] * r + kPolynomial[1];
  p = p * r + kPolynomial[2];
  p = p * r + kPolynomial[3];
  p = p * r + kPolynomial[4];
  p = p * r + kPolynomial[5];
  p = p * r * r + r + 1.0F;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23U;
  const float scaled = std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
  return x < -87.0F ? 0.0F : scaled;
}
inline double exp(double x) { return std::exp(x); }

struct Release {
  void operator()(void* memory) const { ::operator delete(memory, core::kCacheLine); }
};
/// Allocates uninitialized memory for `count` elements, aligned to cache lines.
template <typename R>
std::unique_ptr<R[], Release> scratch(size_t count) {
  return std::unique_ptr<R[], Release>(static_cast<R*>(::operator new(count * sizeof(R), core::kCacheLine)));
}

}  // namespace
}  // namespace folio::train::fused
