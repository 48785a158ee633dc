// The 8-bit format in which ranks exchange inputs of quantized products. Such a product quantizes its inputs to 8 bits
// anyway (Kernels::quantize). A rank therefore sends 36 bytes for 32 floats, and the receiver's product quantizes the
// decoded values to the same integers and scale: outputs stay bit-identical.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace folio::infer {

inline constexpr size_t kEightBitsGroup = 32;  ///< values per group, equal to kernels::kGroupColumns

struct EightBits {
  float largest;                               ///< the group's largest magnitude; an infinity or NaN keeps its bits
  std::array<int8_t, kEightBitsGroup> values;  ///< x * (127 / largest), rounded; 0 where Kernels::quantize yields 0
};
static_assert(sizeof(EightBits) == 36);

[[nodiscard]] EightBits to_eight_bits(std::span<const float, kEightBitsGroup> group);
/// Decodes a group. Kernels::quantize maps the result to the same integers and scale as the original group.
void from_eight_bits(const EightBits& bits, std::span<float, kEightBitsGroup> group);

}  // namespace folio::infer
