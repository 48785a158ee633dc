// Step (d).
#include "experiments/33_cuda/steps.h"

namespace folio::experiments {

void step_d(Lesson& /*lesson*/) {}

}  // namespace folio::experiments
