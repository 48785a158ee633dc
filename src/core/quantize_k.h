// The blocks of Q4_K, Q5_K and Q6_K, which quantize() writes: 256 numbers in groups with scales of 6 or 8 bits. The
// search for the scales is in scale_search.h, the layouts are in quants.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/tensor_view.h"

namespace folio::core {

/// The tensor whose block is written.
struct BlockSource {
  const std::string& name;
  DType type;

  /// Throws Error, that the tensor's numbers are too large, unless the value is finite in half precision.
  void put_half(std::byte* at, float value) const;
};

/// Each writes one block for the 256 numbers `x`, which are finite. Throws as put_half().
void quantize_q4_k(const BlockSource& source, std::span<const float> x, std::byte* block);
void quantize_q5_k(const BlockSource& source, std::span<const float> x, std::byte* block);
void quantize_q6_k(const BlockSource& source, std::span<const float> x, std::byte* block);

}  // namespace folio::core
