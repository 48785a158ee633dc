// Conversions, exp and aligned scratch memory for the loops' bodies. Everything here is compiled again for each
// instruction set, so it is in an unnamed namespace: the linker must not mix them.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "modules/fused/loops.h"

namespace folio::nn::fused {
namespace {

inline float real(float x) { return x; }
inline double real(double x) { return x; }
inline float real(BFloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16U); }

template <typename T>
inline T rounded(Real<T> x) {
  return x;
}
/// To the nearest, and to even in the middle.
template <>
inline BFloat16 rounded<BFloat16>(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return {static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

/// e^x within 2 units in the last place, for loops that g++ turns into vectors. e^x = 2^n e^r with whole n and
/// |r| <= ln 2 / 2, where a polynomial of degree 6 in r suffices. Below e^-87 it is 0.
inline float exp(float x) {
  const float clamped = x < -87.0F ? -87.0F : x > 88.0F ? 88.0F : x;
  constexpr float kRound = 12582912.0F;  // 1.5 · 2^23: adding it rounds to a whole number
  const float shifted = clamped * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;  // Cephes, expf
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23U;
  const float scaled = std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
  return x < -87.0F ? 0.0F : scaled;
}
inline double exp(double x) { return std::exp(x); }

/// Uninitialized memory for `count` numbers, aligned for any vector.
template <typename R>
class Scratch {
 public:
  explicit Scratch(size_t count) : data_(static_cast<R*>(::operator new(count * sizeof(R), kAlignment))) {}
  ~Scratch() { ::operator delete(data_, kAlignment); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] R* data() const { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  R* data_;
};

}  // namespace
}  // namespace folio::nn::fused
