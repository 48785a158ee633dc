// Runs a kernel of an exercise on the emulator and returns its output and counts.
#pragma once

#include <vector>

#include "experiments/33_cuda/exercises/cuda/cuda.h"
#include "experiments/exercises/properties/check.h"
#include "tests/infer/cuda/host/counts.h"
#include "tests/infer/cuda/support.h"

namespace folio::exercises {

using infer::gpu::DeviceMemory;
using infer::gpu::host::Counts;
using infer::gpu::test::on_device;

struct Run {
  Floats out;
  Counts counts;
};

/// Calls kernel(out), where `out` has n_out floats in device memory, filled with NaN. Returns the final values of `out`
/// and the operations that the emulator counted.
template <typename Kernel>
[[nodiscard]] Run run_kernel(Stream& stream, size_t n_out, Kernel kernel) {
  const DeviceMemory out = infer::gpu::test::unwritten(stream, n_out * sizeof(float));
  Run run;
  {
    const infer::gpu::host::CountScope scope;
    kernel(out.as<float>());
    run.counts = scope.counts();
  }
  run.out = infer::gpu::test::on_host<float>(stream, out);
  return run;
}

}  // namespace folio::exercises
