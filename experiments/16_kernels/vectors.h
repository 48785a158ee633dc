// The study's vector step, vector_tiles(), compiled for each instruction set of the architecture in a separate file.
#pragma once

#include "experiments/16_kernels/memory.h"

namespace folio::experiments {

struct VectorStep {
  const char* name;
  size_t lanes;  ///< floats per vector
  /// Computes the product for rows [begin, end) of w. Both must be multiples of 4, and n must be 1 or even.
  void (*product)(const Product& p, size_t begin, size_t end);
  /// Runs `rounds` times kPeakSums vector multiply-adds in registers. The result keeps the compiler from removing them.
  float (*multiply_adds)(size_t rounds);
};

inline constexpr size_t kPeakSums = 10;

/// Returns the best version for this machine, or the one selected by the environment variable FOLIO_ISA.
[[nodiscard]] const VectorStep& vector_step();

extern const VectorStep kBaselineStep;
extern const VectorStep kAvx2Step;
extern const VectorStep kAvx512Step;

}  // namespace folio::experiments
