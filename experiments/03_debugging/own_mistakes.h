// Three mistakes at the end of the notebook of B. Kitano's "Llama from scratch": a table of gradients that shows
// weights, an optimizer with another model's parameters, and a schedule shorter than the training.
#pragma once

#include "experiments/common/report.h"
#include "experiments/common/shakespeare.h"

namespace folio::experiments {

/// Returns the learning rate of a cosine schedule that falls from `highest` to a hundredth of it within `period` steps,
/// then rises again, as PyTorch's CosineAnnealingLR does.
[[nodiscard]] double cosine_rate(double highest, int64_t step, int64_t period);

/// Demonstrates each mistake named at the top of this file: trains small models, prints a table and checks results.
void study_own_mistakes(Report& report, const Shakespeare& text);

}  // namespace folio::experiments
