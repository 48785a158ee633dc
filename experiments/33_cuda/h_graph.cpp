// Step (h).
#include "experiments/33_cuda/steps.h"

namespace folio::experiments {

void step_h(Lesson& /*lesson*/) {}

}  // namespace folio::experiments
