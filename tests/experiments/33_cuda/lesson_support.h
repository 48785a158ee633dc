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

/// Calls `run` with threads and blocks executed in several orders, and requires bit-identical results.
template <typename Run>
void same_in_all_orders(Run run) {
  infer::gpu::host::require_same_in_all_orders([&] { return infer::gpu::test::bytes_of(run()); });
}

}  // namespace folio::experiments
