// Writers of Q4_K, Q5_K and Q6_K blocks for quantize(): 256 elements in groups with scales of 6 or 8 bits.
// scale_search.h finds the scales; quants.cpp describes the layouts.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/tensor_view.h"

namespace folio::core {

/// The tensor being quantized: its name, which errors contain, and the block type.
struct BlockSource {
  const std::string& name;
  DType type;

  /// Writes `value` to `at` as F16. Throws Error that names the tensor if the F16 is not finite.
  void put_half(std::byte* at, float value) const;
};

/// Write 256 finite values `x` as one block to `block`. Throw Error as BlockSource::put_half() does.
void quantize_q4_k(const BlockSource& source, std::span<const float> x, std::byte* block);
void quantize_q5_k(const BlockSource& source, std::span<const float> x, std::byte* block);
void quantize_q6_k(const BlockSource& source, std::span<const float> x, std::byte* block);

}  // namespace folio::core
