// Replaces the CUDA sources in a build without CUDA. Functions that need a GPU throw core::Error.
#include "core/error.h"
#include "infer/cuda/copy_bandwidth.h"
#include "infer/cuda/cuda.h"

namespace folio::infer {
namespace {

[[noreturn]] void fail() {
  core::fail(
      "this build has no CUDA kernels; install the CUDA toolkit and run "
      "cmake --preset default -DFOLIO_CUDA=ON && cmake --build --preset default, or use --device cpu");
}

}  // namespace

bool cuda_built() { return false; }

std::unique_ptr<Machine> make_cuda(const CudaOptions& /*options*/) { fail(); }

namespace gpu {

std::vector<DeviceInfo> devices() { fail(); }
DeviceInfo device_info(int /*device*/) { fail(); }
double copy_bandwidth(int /*device*/, size_t /*most*/) { fail(); }

}  // namespace gpu
}  // namespace folio::infer
