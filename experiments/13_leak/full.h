// Trains the model of B. Kitano's "Llama from scratch" at its original size, for hours, in runs of ten minutes.
#pragma once

#include "experiments/common/report.h"

namespace folio::experiments::tutorial {

/// Trains two models in parallel, one that normalizes over the window and one over single positions, to 5,000, 15,000
/// and 25,000 steps. Returns after about nine minutes; the next call resumes from the state saved under
/// runs/experiments/13_leak. Reports completed stages.
void study_full(Report& report);

}  // namespace folio::experiments::tutorial
