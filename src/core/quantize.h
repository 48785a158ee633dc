// Quantizes to GGUF's block types. Results for Q8_0, Q4_0 and Q4_1 are bit-equal to those of Python's gguf package, and
// differ from those of llama.cpp only in signs of zeros. The other types are bit-equal to llama.cpp's quantizer without
// an importance matrix, built for x86-64 without fused multiply-adds (with them, some K blocks differ).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/tensor_view.h"

namespace folio::core {

/// Quantizes to blocks of Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K. Throws Error that names the tensor `name`
/// for other types, if `values` do not fill whole blocks, and if a value is not finite or too large for a scale in half
/// precision.
[[nodiscard]] std::vector<std::byte> quantize(DType type, std::span<const float> values, const std::string& name);

}  // namespace folio::core
