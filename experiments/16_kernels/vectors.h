// The study's vector step, vector_tiles(), compiled once per instruction set, each in a separate file.
#pragma once

#include "experiments/16_kernels/memory.h"

namespace folio::experiments {

struct VectorStep {
  const char* name;
  size_t lanes;  ///< floats per vector
  /// Computes the product for rows [begin, end) of w. Both must be multiples of 4, n must be 1 or even, and k a
  /// multiple of `lanes`.
  void (*product)(const Product& p, size_t begin, size_t end);
  /// Runs rounds · kPeakSums vector multiply-adds in registers. Returns a sum so that the compiler can't remove them.
  float (*multiply_adds)(size_t rounds);
};

inline constexpr size_t kPeakSums = 10;

/// Returns the best version for this machine, or the one selected by the environment variable FOLIO_ISA.
[[nodiscard]] const VectorStep& vector_step();

extern const VectorStep kBaselineStep;
extern const VectorStep kAvx2Step;
extern const VectorStep kAvx512Step;

}  // namespace folio::experiments
