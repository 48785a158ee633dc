// The steps of the lesson, one file each.
#pragma once

#include "experiments/33_cuda/lesson.h"

namespace folio::experiments {

void step_a(Lesson& lesson);  ///< a thread an element: SwiGLU
void step_b(Lesson& lesson);  ///< a block a row: RMSNorm
void step_c(Lesson& lesson);  ///< memory that is read side by side: a transposition
void step_d(Lesson& lesson);  ///< a matrix by a vector
void step_e(Lesson& lesson);  ///< a matrix by a matrix
void step_f(Lesson& lesson);  ///< tensor cores
void step_g(Lesson& lesson);  ///< attention over a paged cache
void step_h(Lesson& lesson);  ///< a step as a graph

}  // namespace folio::experiments
