// The tutorial's model in its own size and for its own number of steps, hours of computing: in turns of ten minutes.
#pragma once

#include "experiments/common/report.h"

namespace folio::experiments::tutorial {

/// Trains it with the norm over the window and over one position, side by side, to 5,000, 15,000 and 25,000 steps.
/// Returns after about nine minutes; the next call goes on from what was saved under runs/experiments/13_leak. Reports
/// on the stages that are complete.
void study_full(Report& report);

}  // namespace folio::experiments::tutorial
