// The vector step for each instruction set of the architecture, compiled in separate files.
#pragma once

#include "experiments/16_kernels/memory.h"

namespace folio::experiments {

struct VectorStep {
  const char* name;
  size_t lanes;  ///< floats per vector
  /// Computes rows [begin, end) of the product; both are multiples of 4, and n is 1 or even.
  void (*product)(const Product& p, size_t begin, size_t end);
  /// Runs `rounds` times kPeakSums vector multiply-adds on registers. The result prevents their removal.
  float (*multiply_adds)(size_t rounds);
};

inline constexpr size_t kPeakSums = 10;

/// Returns the best version for this machine, or the one selected by FOLIO_ISA.
[[nodiscard]] const VectorStep& vector_step();

extern const VectorStep kBaselineStep;
extern const VectorStep kAvx2Step;
extern const VectorStep kAvx512Step;

}  // namespace folio::experiments
