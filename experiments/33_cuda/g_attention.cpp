// Step (g).
#include "experiments/33_cuda/steps.h"

namespace folio::experiments {

void step_g(Lesson& /*lesson*/) {}

}  // namespace folio::experiments
