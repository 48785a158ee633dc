#define FOLIO_STUDY_LANES 8
#include "experiments/16_kernels/vectors_body.h"

namespace folio::experiments {

const VectorStep kAvx2Step{.name = "AVX2", .lanes = 8, .product = product, .multiply_adds = multiply_adds};

}  // namespace folio::experiments
