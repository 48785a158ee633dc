#include "experiments/33_cuda/a_elements.h"

#include <cmath>

#include "tests/experiments/33_cuda/lesson_support.h"

namespace folio::experiments {
namespace {

TEST(CudaElements, AnyNumberOfElements) {
  Stream stream(0);
  for (const size_t n : {1U, 31U, 32U, 255U, 256U, 257U, 2047U, 2049U}) {
    const std::vector<float> x = ramp(n);
    const DeviceMemory gate = on_device(stream, x);
    for (auto* swiglu : {swiglu_elements, swiglu_eights, swiglu_fours}) {
      if (swiglu == swiglu_fours && n % 4 != 0) continue;
      const auto y =
          outputs_of(stream, n, true, [&](float* out) { swiglu(stream, gate.as<float>(), gate.as<float>(), n, out); });
      for (size_t i = 0; i < n; ++i) EXPECT_NEAR(y[i], x[i] / (1 + std::exp(-x[i])) * x[i], 1e-6) << n << " " << i;
    }
  }
}

}  // namespace
}  // namespace folio::experiments
