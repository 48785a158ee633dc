// The vector step for the instruction sets of this machine: each is compiled in a file of its own, for it alone.
#pragma once

#include "experiments/16_kernels/memory.h"

namespace folio::experiments {

struct VectorStep {
  const char* name;
  size_t lanes;  ///< floats in a vector
  /// Rows [begin, end) of the product, multiples of 4; n is 1 or even.
  void (*product)(const Product& p, size_t begin, size_t end);
  /// Multiply-adds on registers alone: `rounds` times kPeakSums vectors of them. The result keeps them alive.
  float (*multiply_adds)(size_t rounds);
};

inline constexpr size_t kPeakSums = 10;

/// The best for this machine, or what FOLIO_ISA names.
[[nodiscard]] const VectorStep& vector_step();

extern const VectorStep kBaselineStep;
extern const VectorStep kAvx2Step;
extern const VectorStep kAvx512Step;

}  // namespace folio::experiments
