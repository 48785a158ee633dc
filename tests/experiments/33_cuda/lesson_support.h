// Helpers for the tests of experiments/33_cuda: device memory, and the operation counts of kernel launches.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/infer/cuda/host/counts.h"
#include "tests/infer/cuda/host/emulator.h"
#include "tests/infer/cuda/support.h"

namespace folio::experiments {

using infer::gpu::DeviceMemory;
using infer::gpu::Stream;
using infer::gpu::host::Counts;
using infer::gpu::test::on_device;
using infer::gpu::test::on_host;
using infer::gpu::test::unwritten;

template <typename Run>
[[nodiscard]] Counts counts_of(Run run) {
  const infer::gpu::host::CountScope scope;
  run();
  return scope.counts();
}

/// Returns n evenly spaced floats that increase from -1 and stay below 1.
[[nodiscard]] inline std::vector<float> ramp(size_t n) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = 2.0F * static_cast<float>(i) / static_cast<float>(n) - 1.0F;
  return x;
}

/// Returns the n floats that run(out) writes. If `all_orders`, also requires them to be bit-identical with threads and
/// blocks in several orders.
template <typename Run>
[[nodiscard]] std::vector<float> outputs_of(Stream& stream, size_t n, bool all_orders, Run run) {
  const auto outputs = [&] {
    const DeviceMemory out = unwritten(stream, n * sizeof(float));
    run(out.as<float>());
    return on_host<float>(stream, out);
  };
  if (all_orders) infer::gpu::host::require_same_in_all_orders([&] { return infer::gpu::test::bytes_of(outputs()); });
  return outputs();
}

}  // namespace folio::experiments
