#include "experiments/33_cuda/a_elements.h"

#include <cmath>

#include "core/error.h"
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
      same_in_all_orders([&] {
        const DeviceMemory out = unwritten(stream, gate.bytes());
        swiglu(stream, gate.as<float>(), gate.as<float>(), n, out.as<float>());
        return on_host<float>(stream, out);
      });
      const DeviceMemory out = unwritten(stream, gate.bytes());
      swiglu(stream, gate.as<float>(), gate.as<float>(), n, out.as<float>());
      const std::vector<float> y = on_host<float>(stream, out);
      for (size_t i = 0; i < n; ++i) EXPECT_NEAR(y[i], x[i] / (1 + std::exp(-x[i])) * x[i], 1e-6) << n << " " << i;
    }
  }
}

// 512 elements are 64 sectors in each of gate, up and out. Each of 16 warps accesses 128 bytes of each array.
TEST(CudaElements, Counts) {
  Stream stream(0);
  constexpr size_t kN = 512;
  const DeviceMemory gate = on_device(stream, ramp(kN));
  const DeviceMemory up = on_device(stream, ramp(kN));
  const DeviceMemory out = unwritten(stream, gate.bytes());
  const auto count = [&](auto swiglu) {
    return counts_of([&] { swiglu(stream, gate.as<float>(), up.as<float>(), kN, out.as<float>()); });
  };
  const Counts elements = count(swiglu_elements);
  EXPECT_EQ(elements.blocks, 2U);
  EXPECT_EQ(elements.loaded_bytes, 2 * 4 * kN);
  EXPECT_EQ(elements.stored_bytes, 4 * kN);
  EXPECT_EQ(elements.load_requests, 32U);
  EXPECT_EQ(elements.load_sectors, 128U);
  EXPECT_EQ(elements.store_sectors, 64U);
  EXPECT_EQ(elements.divergent_branches, 0U);
  // Each of two warps loads `gate` and `up` eight times. All 32 sectors of a request differ.
  const Counts eights = count(swiglu_eights);
  EXPECT_EQ(eights.load_requests, 32U);
  EXPECT_EQ(eights.load_sectors, 1024U);
  EXPECT_EQ(eights.distinct_sectors, 192U);
  // Four warps, one request for each of the two inputs.
  const Counts fours = count(swiglu_fours);
  EXPECT_EQ(fours.load_requests, 8U);
  EXPECT_EQ(fours.load_sectors, 128U);
}

TEST(CudaElements, ThreadsPastTheEndAreReported) {
  Stream stream(0);
  const DeviceMemory x = on_device(stream, ramp(200));
  EXPECT_THROW(swiglu_unchecked(stream, x.as<float>(), x.as<float>(), 200, x.as<float>()), core::Error);
}

}  // namespace
}  // namespace folio::experiments
