// Tests the emulator's features that the engine's kernels don't use, three-dimensional launches and shuffles within
// part of a warp, in every order of threads. The tests of the kernels cover all other features.
#include "tests/infer/cuda/host/emulator.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/infer/cuda/support.h"
#include "tests/infer/cuda/test_kernels.h"

namespace folio::infer::gpu {
namespace {

using host::Order;
using host::OrderScope;
using test::on_host;

class EmulatorOrder : public ::testing::TestWithParam<Order> {
 protected:
  OrderScope scope_{GetParam()};
  Stream stream_{0};
};

INSTANTIATE_TEST_SUITE_P(Orders, EmulatorOrder, ::testing::ValuesIn(host::all_orders()),
                         ::testing::PrintToStringParamName());

TEST_P(EmulatorOrder, ThreadsHaveTheirIndices) {
  const DeviceMemory out(stream_, 2 * 3 * 4 * 5 * 6 * 7 * 4);
  launch(test::indices, {2, 3, 4}, {5, 6, 7}, 0, stream_, out.as<unsigned>());
  const auto result = on_host<unsigned>(stream_, out);
  for (unsigned i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], i / 210 * 1000000 + i % 210);
}

TEST_P(EmulatorOrder, ShufflesBehaveAsOnAGpu) {
  const DeviceMemory out(stream_, 32 * 4 * 4);
  launch(test::warp_words, {}, {32}, 0, stream_, out.as<unsigned>());
  const auto result = on_host<unsigned>(stream_, out);
  for (unsigned lane = 0; lane < 32; ++lane) {
    const std::vector<unsigned> mine(result.begin() + lane * 4, result.begin() + lane * 4 + 4);
    const std::vector<unsigned> expected{50, (lane ^ 3U) * 10, (lane < 28 ? lane + 4 : lane) * 10,
                                         (lane >= 4 ? lane - 4 : lane) * 10};
    EXPECT_EQ(mine, expected) << lane;
  }
}

TEST_P(EmulatorOrder, HalfWarpsSynchronizeSeparately) {
  const DeviceMemory out(stream_, 32 * 4);
  launch(test::halves, {}, {32}, 0, stream_, out.as<unsigned>());
  const auto result = on_host<unsigned>(stream_, out);
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned other = lane ^ 16U;
    EXPECT_EQ(result[lane], other < 16 ? other ^ 1U : other ^ 6U) << lane;
  }
}

TEST(EmulatedDevice, FreshMemoryIsNaN) {
  Stream stream(0);
  EXPECT_EQ(on_host<uint8_t>(stream, DeviceMemory(stream, 1001)), std::vector<uint8_t>(1001, 0xFF));
}

}  // namespace
}  // namespace folio::infer::gpu
