// Tests the GPU emulator: correct kernels give the same result whatever order their threads and blocks run in.
#include "tests/infer/cuda/host/emulator.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "core/error.h"
#include "tests/infer/cuda/support.h"
#include "tests/infer/cuda/test_kernels.h"

namespace folio::infer::gpu {
namespace {

using host::Order;
using host::OrderScope;
using test::on_device;
using test::on_host;

class EmulatorOrder : public ::testing::TestWithParam<Order> {
 protected:
  OrderScope scope_{GetParam()};
  Stream stream_{0};
};

INSTANTIATE_TEST_SUITE_P(Orders, EmulatorOrder, ::testing::ValuesIn(host::all_orders()),
                         ::testing::PrintToStringParamName());

std::vector<unsigned> count_up(unsigned n) {
  std::vector<unsigned> x(n);
  std::iota(x.begin(), x.end(), 0U);
  return x;
}

std::vector<float> count_up_floats(unsigned n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 0.0F);
  return x;
}

TEST_P(EmulatorOrder, RunsIndependentThreads) {
  const DeviceMemory x = on_device(stream_, count_up_floats(1000));
  launch(test::scale, {8}, {128}, 0, stream_, x.as<float>(), 2.0F, 999U);
  const auto result = on_host<float>(stream_, x);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_EQ(result[i], i < 999 ? 2.0F * static_cast<float>(i) : 999.0F);
}

TEST_P(EmulatorOrder, ThreadsHaveTheirIndices) {
  const DeviceMemory out(stream_, 2 * 3 * 4 * 5 * 6 * 7 * 4);
  launch(test::indices, {2, 3, 4}, {5, 6, 7}, 0, stream_, out.as<unsigned>());
  const auto result = on_host<unsigned>(stream_, out);
  for (unsigned i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], i / 210 * 1000000 + i % 210);
}

TEST_P(EmulatorOrder, ShufflesAndBarriersSum) {
  const auto x = count_up(4 * 128 + 77);
  const DeviceMemory device_x = on_device(stream_, x);
  const DeviceMemory sums(stream_, 5 * 4);
  launch(test::sum_blocks, {5}, {128}, 0, stream_, sums.as<unsigned>(), device_x.as<unsigned>(), 4 * 128 + 77);
  const auto result = on_host<unsigned>(stream_, sums);
  for (unsigned b = 0; b < 5; ++b) {
    const auto begin = x.begin() + b * 128;
    EXPECT_EQ(result[b], std::accumulate(begin, std::min(begin + 128, x.end()), 0U));
  }
}

TEST_P(EmulatorOrder, DynamicSharedMemoryIsPerBlock) {
  const DeviceMemory x = on_device(stream_, count_up_floats(3 * 96));
  const DeviceMemory y(stream_, x.bytes());
  launch(test::reverse_blocks, {3}, {96}, 96 * sizeof(float), stream_, y.as<float>(), x.as<float>());
  const auto result = on_host<float>(stream_, y);
  for (unsigned i = 0; i < 288; ++i) ASSERT_EQ(result[i], static_cast<float>(i / 96 * 96 + 95 - i % 96));
}

TEST_P(EmulatorOrder, LastBlockCombinesPartialSums) {
  const auto x = count_up(1000);
  const DeviceMemory device_x = on_device(stream_, x);
  const DeviceMemory parts(stream_, 16 * 4);
  const DeviceMemory total(stream_, 4);
  const DeviceMemory done = on_device(stream_, std::vector<unsigned>{0});
  for (int turn = 0; turn < 2; ++turn) {
    launch(test::sum_all, {16}, {64}, 0, stream_, total.as<unsigned>(), parts.as<unsigned>(), done.as<unsigned>(),
           device_x.as<unsigned>(), 1000U);
    EXPECT_EQ(on_host<unsigned>(stream_, total)[0], 999U * 1000 / 2);
  }
}

TEST_P(EmulatorOrder, AsyncCopiesCompleteAtTheirWait) {
  const auto x = count_up(3 * 4 * 64 * 4);
  const DeviceMemory device_x = on_device(stream_, x);
  const DeviceMemory y(stream_, device_x.bytes());
  launch(test::copy_tiles, {3}, {64}, 2 * 64 * 16, stream_, y.as<Words>(), device_x.as<Words>());
  EXPECT_EQ(on_host<unsigned>(stream_, y), x);
}

TEST_P(EmulatorOrder, WarpIntrinsicsBehaveAsOnAGpu) {
  const DeviceMemory out(stream_, 32 * 7 * 4);
  launch(test::warp_words, {}, {32}, 0, stream_, out.as<unsigned>());
  const auto result = on_host<unsigned>(stream_, out);
  for (unsigned lane = 0; lane < 32; ++lane) {
    const std::vector<unsigned> mine(result.begin() + lane * 7, result.begin() + lane * 7 + 7);
    const std::vector<unsigned> expected{
        50, (lane ^ 3U) * 10, (lane < 28 ? lane + 4 : lane) * 10, (lane >= 4 ? lane - 4 : lane) * 10, 0xAAAAAAAAU, 1,
        0};
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

TEST_P(EmulatorOrder, WarpBarrierSynchronizesTheWarp) {
  const DeviceMemory x = on_device(stream_, count_up_floats(128));
  const DeviceMemory y(stream_, x.bytes());
  launch(test::reverse_warps, {}, {128}, 0, stream_, y.as<float>(), x.as<float>());
  const auto result = on_host<float>(stream_, y);
  for (unsigned i = 0; i < 128; ++i) ASSERT_EQ(result[i], static_cast<float>(i / 32 * 32 + 31 - i % 32));
}

}  // namespace
}  // namespace folio::infer::gpu
