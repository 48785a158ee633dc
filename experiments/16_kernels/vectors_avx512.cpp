#define FOLIO_STUDY_LANES 16
#include "experiments/16_kernels/vectors_body.h"

namespace folio::experiments {

const VectorStep kAvx512Step{.name = "AVX-512", .lanes = 16, .product = product, .multiply_adds = multiply_adds};

}  // namespace folio::experiments
