// Step (e).
#include "experiments/33_cuda/steps.h"

namespace folio::experiments {

void step_e(Lesson& /*lesson*/) {}

}  // namespace folio::experiments
