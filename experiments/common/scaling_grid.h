// Small Llamas of several widths, each trained for several numbers of steps: what a scaling law is fitted to.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/common/report.h"
#include "experiments/common/scaling_law.h"

namespace folio::experiments {

/// runs[i * steps.size() + j] has widths[i] and steps[j].
struct ScalingGrid {
  std::vector<int64_t> widths, steps;
  std::vector<ScalingRuns> runs{};

  [[nodiscard]] const ScalingRuns& at(size_t width, size_t step) const { return runs[width * steps.size() + step]; }

  /// Fills in `runs`: each anew from its first values, on each of report.seeds(), several at once. Parameters are all
  /// but the embedding (Kaplan et al., "Scaling Laws for Neural Language Models", 2020, section 1.3).
  void train(const Report& report);
};

}  // namespace folio::experiments
