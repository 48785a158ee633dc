#include "tests/infer/cuda/test_kernels.h"

namespace folio::infer::gpu::test {}  // namespace folio::infer::gpu::test
