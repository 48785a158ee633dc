// Step (c).
#include "experiments/33_cuda/steps.h"

namespace folio::experiments {

void step_c(Lesson& /*lesson*/) {}

}  // namespace folio::experiments
