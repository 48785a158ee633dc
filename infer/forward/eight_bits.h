// The 8-bit format in which ranks exchange inputs of quantized products: 36 bytes for 32 floats. Results stay
// bit-identical, because such a product quantizes its inputs to 8 bits anyway (Kernels::quantize) and maps the decoded
// values to the same integers and scale.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace folio::infer {

inline constexpr size_t kEightBitsGroup = 32;  ///< values per group, equal to kernels::kGroupColumns

struct EightBits {
  float largest;                               ///< the group's largest magnitude, possibly infinity or a NaN
  std::array<int8_t, kEightBitsGroup> values;  ///< x * (127 / largest), rounded; 0 where Kernels::quantize yields 0
};
static_assert(sizeof(EightBits) == 36);

[[nodiscard]] EightBits to_eight_bits(std::span<const float, kEightBitsGroup> group);
/// Decodes a group. Kernels::quantize maps the result to the same integers and scale as the original group.
void from_eight_bits(const EightBits& bits, std::span<float, kEightBitsGroup> group);

}  // namespace folio::infer
