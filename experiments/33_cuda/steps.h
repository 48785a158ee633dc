// The steps of the lesson, one file each.
#pragma once

#include "experiments/33_cuda/lesson.h"

namespace folio::experiments {

void step_a(Lesson& lesson);  ///< SwiGLU with one thread per element
void step_b(Lesson& lesson);  ///< RMSNorm with one block per row
void step_c(Lesson& lesson);  ///< transposition with coalesced accesses
void step_d(Lesson& lesson);  ///< product of a matrix and a vector
void step_e(Lesson& lesson);  ///< product of two matrices
void step_f(Lesson& lesson);  ///< products on tensor cores
void step_g(Lesson& lesson);  ///< attention over a paged cache
void step_h(Lesson& lesson);  ///< a decoding step as a CUDA graph

}  // namespace folio::experiments
