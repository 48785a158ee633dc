// Inputs of products in 8 bits, as ranks send them. A product with a matrix in blocks rounds its inputs to 8 bits
// (Kernels::quantize). So a rank sends 36 bytes for 32 numbers, and from what comes of them the receiver's product
// rounds to the same integers and the same scale: the bytes of a text do not change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace folio::infer {

inline constexpr size_t kEightBitsGroup = 32;  ///< kernels::kGroupColumns

struct EightBits {
  float largest;                               ///< magnitude of the group, with its bits where it is not finite
  std::array<int8_t, kEightBitsGroup> values;  ///< x * (127 / largest), rounded; 0 where Kernels::quantize has 0
};
static_assert(sizeof(EightBits) == 36);

[[nodiscard]] EightBits to_eight_bits(std::span<const float, kEightBitsGroup> group);
/// Numbers that Kernels::quantize makes the same of as of those that the group had.
void from_eight_bits(const EightBits& bits, std::span<float, kEightBitsGroup> group);

}  // namespace folio::infer
