// GGUF's block types (https://github.com/ggml-org/ggml, ggml-common.h), read as groups of quants (small unsigned
// integers) that share a scale: value = scale * (quant - zero_point), or scale * quant + minimum. quantize.h writes
// them, but for MXFP4, whose quants are 16 more than twice numbers of four bits, E2M1, with a power of two for a scale
// (Open Compute Project, "Microscaling Formats", 2023).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "core/tensor_view.h"

namespace folio::core {

/// What the four bits of an MXFP4 stand for: twice the number, and 16.
inline constexpr std::array<uint8_t, 16> kFp4Quants{16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

/// Half of a scale in eight bits, E8M0: 2^(bits - 128).
[[nodiscard]] inline float half_scale_of(uint8_t bits) { return std::ldexp(1.0F, bits - 128); }

/// How a block type stores its groups.
struct QuantInfo {
  DType type;
  size_t group;        ///< elements that share one scale: 16 or 32
  uint32_t bits;       ///< of a stored quant: 4, 5, 6 or 8
  int32_t zero_point;  ///< subtracted from each quant; 0 if the groups have minimums
  bool minimums;       ///< whether each group has a minimum
  bool
      byte_scales;  ///< each scale is a byte times an F16 of its block, each minimum minus that; otherwise they are F16
  bool fp4 = false;  ///< quants are kFp4Quants of four bits; a scale is a byte alone, half_scale_of
};

/// The description of a block type that is read here (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K,
/// MXFP4), or null.
[[nodiscard]] const QuantInfo* quant_info(DType type);

/// What blocks store. F16 as its bits, and the quants of MXFP4 as theirs.
struct StoredGroups {
  std::span<uint8_t> quants;    ///< (elements)
  std::span<uint16_t> factors;  ///< scales of each group, or what the bytes of each block are multiplied by
  std::span<uint16_t> minimum_factors;
  std::span<uint8_t> scales;  ///< of each group, for types whose scales are bytes: of 6 bits, signed in Q6_K, or E8M0
  std::span<uint8_t> minimums;
};

/// Unpacks whole blocks into what they store. Parts that the type lacks are not written. Throws Error for other types,
/// and if there is too little room.
void unpack(DType type, std::span<const std::byte> blocks, const StoredGroups& out);

/// Unpacks whole blocks into quants (elements), scales and minimums (elements / group each). `minimums` is empty for a
/// type without them. Throws Error for other types, and if the sizes don't match.
void unpack(DType type, std::span<const std::byte> blocks, std::span<uint8_t> quants, std::span<float> scales,
            std::span<float> minimums);

/// Dequantizes whole blocks into `values` (elements). Throws as unpack() does.
void dequantize(DType type, std::span<const std::byte> blocks, std::span<float> values);

}  // namespace folio::core
