// Three mistakes at the end of the notebook of B. Kitano's "Llama from scratch": a table of gradients that shows
// weights, an optimizer with another model's parameters, and a schedule shorter than the training.
#pragma once

#include "experiments/common/report.h"
#include "experiments/common/shakespeare.h"

namespace folio::experiments {

/// Demonstrates each mistake named at the top of this file: trains small models, prints a table and checks results.
void study_own_mistakes(Report& report, const Shakespeare& text);

}  // namespace folio::experiments
