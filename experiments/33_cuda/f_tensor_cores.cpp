// Step (f).
#include "experiments/33_cuda/steps.h"

namespace folio::experiments {

void step_f(Lesson& /*lesson*/) {}

}  // namespace folio::experiments
