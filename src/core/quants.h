// GGUF's block types (https://github.com/ggml-org/ggml, ggml-common.h), read as groups of quants (small unsigned
// integers) that share a scale: value = scale * (quant - zero_point), or scale * quant + minimum. quantize.h writes all
// of them except MXFP4 (Open Compute Project, "Microscaling Formats", 2023), whose E2M1 values v are read as quants 2v
// + 16.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "core/tensor_view.h"

namespace folio::core {

/// The quant of each 4-bit code of MXFP4 (E2M1): twice the code's value, plus 16.
inline constexpr std::array<uint8_t, 16> kFp4Quants{16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

/// Returns half of an E8M0 scale, 2^(bits - 128), because MXFP4's quants are twice their values.
[[nodiscard]] inline float half_scale_of(uint8_t bits) { return std::ldexp(1.0F, bits - 128); }

/// Describes how a block type stores a group, the elements that share one scale.
struct QuantInfo {
  DType type;
  size_t group;        ///< elements that share one scale: 16 or 32
  uint32_t bits;       ///< bits of a stored quant: 4, 5, 6 or 8
  int32_t zero_point;  ///< subtracted from each quant; 0 if the groups have minimums
  bool minimums;       ///< each group has a minimum
  bool byte_scales;    ///< true: scale = byte * F16 of the block, minimum = -byte * F16; false: both are F16
  bool fp4 = false;    ///< MXFP4: quant = kFp4Quants[4-bit code], scale = half_scale_of(byte)
};

/// Returns the representation of a supported block type (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, MXFP4), or
/// null for other types.
[[nodiscard]] const QuantInfo* quant_info(DType type);

/// The fields of blocks as they are stored: F16 values and MXFP4's 4-bit codes are not converted.
struct StoredGroups {
  std::span<uint8_t> quants;    ///< one per element
  std::span<uint16_t> factors;  ///< one per block: its scale, or the factor of its scale bytes
  std::span<uint16_t> minimum_factors;
  std::span<uint8_t> scales;  ///< one per group, if scales are bytes: 6 bits, signed 8 bits (Q6_K) or E8M0 (MXFP4)
  std::span<uint8_t> minimums;
};

// The functions below throw Error for unsupported types. They do not check that the spans have matching sizes.

/// Unpacks whole blocks into their stored fields. Fields that the type lacks are not written.
void unpack(DType type, std::span<const std::byte> blocks, const StoredGroups& out);

/// Unpacks whole blocks into one quant per element, and one scale and one minimum per group. `minimums` is empty for a
/// type without minimums.
void unpack(DType type, std::span<const std::byte> blocks, std::span<uint8_t> quants, std::span<float> scales,
            std::span<float> minimums);

/// Dequantizes whole blocks into `values`, one per element.
void dequantize(DType type, std::span<const std::byte> blocks, std::span<float> values);

}  // namespace folio::core
