// Three mistakes of the tutorial's own, at the end of its notebook: a table of gradients that shows weights, an
// optimizer that holds another model's parameters, and a schedule that is shorter than the training.
#pragma once

#include "experiments/common/report.h"
#include "experiments/common/shakespeare.h"

namespace folio::experiments {

/// The learning rate of a cosine that falls from `highest` to a hundredth of it within `period` steps. After that it
/// rises again, as PyTorch's CosineAnnealingLR does.
[[nodiscard]] double cosine_rate(double highest, int64_t step, int64_t period);

/// Measures them, prints their tables and makes their claims.
void study_own_mistakes(Report& report, const Shakespeare& text);

}  // namespace folio::experiments
