// Conversions to and from 16-bit floats, and e^x, bit for bit the same on a GPU and on the host.
#pragma once

#include "infer/cuda/kernel.h"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <bit>
#include <cmath>

#include "core/float16.h"
#endif
#include "core/exp_constants.h"

namespace folio::infer::gpu {

#ifdef __CUDACC__

[[nodiscard]] __device__ inline uint32_t bits_of(float x) { return __float_as_uint(x); }
[[nodiscard]] __device__ inline float float_of(uint32_t bits) { return __uint_as_float(bits); }
/// Returns x as F16 or BF16, rounded to nearest, ties to even.
[[nodiscard]] __device__ inline uint16_t to_f16(float x) { return __half_as_ushort(__float2half_rn(x)); }
[[nodiscard]] __device__ inline uint16_t to_bf16(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
[[nodiscard]] __device__ inline float from_f16(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
[[nodiscard]] __device__ inline float round_to_whole(float x) { return rintf(x); }
[[nodiscard]] __device__ inline unsigned count_bits(unsigned x) { return static_cast<unsigned>(__popc(x)); }

#else

[[nodiscard]] inline uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
[[nodiscard]] inline float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }
[[nodiscard]] inline uint16_t to_f16(float x) { return core::float_to_f16(x); }
[[nodiscard]] inline uint16_t to_bf16(float x) { return core::float_to_bf16(x); }
[[nodiscard]] inline float from_f16(uint16_t bits) { return core::f16_to_float(bits); }
[[nodiscard]] inline float round_to_whole(float x) { return std::nearbyint(x); }
[[nodiscard]] inline unsigned count_bits(unsigned x) { return static_cast<unsigned>(std::popcount(x)); }
#ifdef FOLIO_COUNTS
using host::fmaf;
#else
using std::fmaf;
#endif
using std::sqrt;

#endif

[[nodiscard]] __device__ inline float from_bf16(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16U); }

/// Returns e^x to about 2 units in the last place, with x clamped to [-87.33, 88.37]. Same steps as reference/exp.cpp.
[[nodiscard]] __device__ inline float exp_of(float x) {
  using namespace core::exp_constants;
  constexpr float c0 = kPolynomial[0];
  constexpr float c1 = kPolynomial[1];
  constexpr float c2 = kPolynomial[2];
  constexpr float c3 = kPolynomial[3];
  constexpr float c4 = kPolynomial[4];
  constexpr float c5 = kPolynomial[5];
  x = x > kLow ? x : kLow;
  x = x < kHigh ? x : kHigh;
  const float n = round_to_whole(x * kLog2E);
  float r = fmaf(n, -kLn2High, x);
  r = fmaf(n, -kLn2Low, r);
  float p = fmaf(c0, r, c1);
  p = fmaf(p, r, c2);
  p = fmaf(p, r, c3);
  p = fmaf(p, r, c4);
  p = fmaf(p, r, c5);
  const float y = fmaf(p, r * r, r) + 1.0F;
  return y * float_of(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23U);
}

/// Returns cap · tanh(x / cap), in the same steps as soft_cap in reference/swiglu.cpp.
[[nodiscard]] __device__ inline float soft_capped(float x, float cap) {
  return cap - 2.0F * cap / (exp_of(x * (2.0F / cap)) + 1.0F);
}

}  // namespace folio::infer::gpu
