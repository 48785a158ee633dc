// GGUF's block types (https://github.com/ggml-org/ggml, ggml-common.h), read as groups of quants (small unsigned
// integers) that share a scale: value = scale * (quant - zero_point), or scale * quant + minimum. quantize.h writes
// them.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor_view.h"

namespace folio::core {

/// How a block type stores its groups.
struct QuantInfo {
  DType type;
  size_t group;        ///< elements that share one scale: 16 or 32
  uint32_t bits;       ///< of a quant: 4, 5, 6 or 8
  int32_t zero_point;  ///< subtracted from each quant; 0 if the groups have minimums
  bool minimums;       ///< whether each group has a minimum
  bool half_scales;    ///< scales and minimums are F16; otherwise each is an F16 times a small integer
};

/// The description of a block type that is read here (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K), or null.
[[nodiscard]] const QuantInfo* quant_info(DType type);

/// Unpacks whole blocks into quants (elements), scales and minimums (elements / group each). `minimums` is empty for a
/// type without them. Throws Error for other types, and if the sizes don't match.
void unpack(DType type, std::span<const std::byte> blocks, std::span<uint8_t> quants, std::span<float> scales,
            std::span<float> minimums);

/// Dequantizes whole blocks into `values` (elements). Throws as unpack() does.
void dequantize(DType type, std::span<const std::byte> blocks, std::span<float> values);

}  // namespace folio::core
