// Buffer for inputs quantized to 8 bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/aligned_vector.h"
#include "infer/reference/groups.h"

namespace folio::infer {

/// Returns the inputs from `first` on, each of k elements. A Kernels::quantize() call must have written `first` as its
/// first input, because AMX interleaves the inputs of a call. Always inlined, so that each instruction set has its own.
[[nodiscard, gnu::always_inline]] inline kernels::QuantizedInputs from(const kernels::QuantizedInputs& x, size_t first,
                                                                       size_t k) {
  const size_t groups = first * (k / kernels::kGroupColumns);
  return {.values = x.values + first * k,
          .scales = x.scales + groups,
          .scaled_sums = x.scaled_sums + groups,
          .sums = x.sums + groups * 3};
}

class QuantizedBuffer {
 public:
  /// Returns a buffer for n inputs of k elements, valid until the next call.
  kernels::QuantizedInputs resize(size_t n, size_t k) {
    const size_t groups = n * (k / kernels::kGroupColumns);
    // Never shrinks, because growing again would zero the new part.
    const auto at_least = [](auto& buffer, size_t size) { buffer.resize(std::max(buffer.size(), size)); };
    at_least(values_, n * k);
    for (auto* buffer : {&scales_, &scaled_sums_}) at_least(*buffer, groups);
    at_least(sums_, groups * 3);
    return {
        .values = values_.data(), .scales = scales_.data(), .scaled_sums = scaled_sums_.data(), .sums = sums_.data()};
  }

 private:
  core::AlignedVector<int8_t> values_;  // aligned, so that no group spans two cache lines
  std::vector<float> scales_;
  std::vector<float> scaled_sums_;
  std::vector<int32_t> sums_;
};

}  // namespace folio::infer
