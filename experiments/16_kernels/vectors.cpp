#define FOLIO_STUDY_LANES 4
#include "core/isa.h"
#include "experiments/16_kernels/vectors_body.h"

namespace folio::experiments {

const VectorStep kBaselineStep{.name = "baseline", .lanes = 4, .product = product, .multiply_adds = multiply_adds};

const VectorStep& vector_step() {
#if defined(__x86_64__)
  const core::Isa isa = core::select_isa();
  if (isa == core::Isa::Avx2) return kAvx2Step;
  if (isa != core::Isa::Reference) return kAvx512Step;
#endif
  return kBaselineStep;
}

}  // namespace folio::experiments
