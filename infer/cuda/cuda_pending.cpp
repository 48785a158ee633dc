// In the place of cuda.cpp until that is written.
#include "core/error.h"
#include "infer/cuda/cuda.h"

namespace folio::infer {

bool cuda_built() { return true; }

std::unique_ptr<Machine> make_cuda(const CudaOptions& options) {
  const gpu::Stream stream(options.device);
  core::fail("GPU {} is there, but the stage that runs on it is not written yet; take --device cpu", options.device);
}

}  // namespace folio::infer
