// Conversions between float and the 16-bit floats. Widening is exact; narrowing rounds to nearest, ties to even. F16 is
// IEEE 754 binary16 (5 exponent bits, 10 mantissa bits); BF16 is the upper half of a float.
// A NaN stays a NaN and keeps the payload bits that fit, so narrow(widen(h)) == h for every h.
#pragma once

#include <bit>
#include <cstdint>

namespace folio::core {

[[nodiscard]] inline float bf16_to_float(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16U); }

[[nodiscard]] inline uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  if (nan) return static_cast<uint16_t>((bits >> 16U) | ((bits & 0x7F0000U) == 0 ? 0x40U : 0U));
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

[[nodiscard]] inline float f16_to_float(uint16_t h) {
  const uint32_t sign = (h & 0x8000U) << 16U;
  const uint32_t exponent = (h >> 10U) & 0x1FU;
  const uint32_t mantissa = h & 0x3FFU;
  if (exponent == 0x1FU) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13U));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;  // zero and subnormals, exact
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

[[nodiscard]] inline uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16U) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    const uint32_t payload = (magnitude >> 13U) & 0x3FFU;
    return static_cast<uint16_t>(sign | 0x7C00U | (payload == 0 ? 0x200U : payload));
  }
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);  // 65520 and more round to infinity
  if (magnitude < 0x38800000U) {  // F16 subnormal: adding 0.5 rounds to a multiple of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5F)));
  }
  const uint32_t rebased = magnitude - (112U << 23U);
  return static_cast<uint16_t>(sign | ((rebased + 0xFFFU + ((rebased >> 13U) & 1U)) >> 13U));
}

}  // namespace folio::core
