// GGUF's block types (https://github.com/ggml-org/ggml, ggml-common.h), seen as groups of small whole numbers that
// share a scale: value = scale * (payload - offset), or scale * payload + minimum. Blocks that are written here are
// bit-equal to those of the gguf package for Python.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor_view.h"

namespace folio::core {

/// What the groups of a block type look like.
struct QuantInfo {
  DType type;
  size_t group;      ///< numbers that share one scale: 16 or 32
  uint32_t bits;     ///< of a payload: 4, 5, 6 or 8
  int32_t offset;    ///< what is taken from each payload; 0 where there are minimums
  bool minimums;     ///< whether a group has a minimum
  bool half_scales;  ///< whether scales and minimums are F16 numbers; else they are products of one and an integer
};

/// The description of a block type that is read here (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K), or null.
[[nodiscard]] const QuantInfo* quant_info(DType type);

/// Takes whole blocks apart: payload (elements), scales and minimums (elements / group). `minimums` is empty for a type
/// that has none. Throws Error for other types, and where the sizes don't fit together.
void unpack(DType type, std::span<const std::byte> blocks, std::span<uint8_t> payload, std::span<float> scales,
            std::span<float> minimums);

/// The numbers that whole blocks stand for, into `values` (elements). Throws as unpack() does.
void dequantize(DType type, std::span<const std::byte> blocks, std::span<float> values);

/// Blocks of Q8_0, Q4_0 or Q4_1. Throws Error that names the tensor `name` for other types, where `values` are not
/// whole blocks, and for a number that is not finite or too large for a scale in half precision.
[[nodiscard]] std::vector<std::byte> quantize(DType type, std::span<const float> values, const std::string& name);

}  // namespace folio::core
