// The model of B. Kitano's "Llama from scratch" at its original size: hours of computation, in runs of ten minutes.
#pragma once

#include "experiments/common/report.h"

namespace folio::experiments::tutorial {

/// Trains the model with a norm over the window and with a norm over one position, in parallel, to 5,000, 15,000 and
/// 25,000 steps. Returns after about nine minutes; the next call resumes from the state saved under
/// runs/experiments/13_leak. Reports completed stages.
void study_full(Report& report);

}  // namespace folio::experiments::tutorial
