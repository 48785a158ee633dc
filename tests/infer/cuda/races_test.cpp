// Tests the race detector: every planted race is detected in every order of threads, and the error names both lines.
// emulator_test.cpp is also built with the detector, and tests that correct kernels cause no errors.
#include <vector>

#include "tests/infer/cuda/faults.h"
#include "tests/infer/cuda/host/emulator.h"

namespace folio::infer::gpu {
namespace {

using host::Order;
using host::OrderScope;
using test::contains;
using test::message_of;
using test::on_device;
using test::place_of;

class Races : public ::testing::TestWithParam<Order> {
 protected:
  /// Runs a kernel that reads x and writes y in one block of `threads` threads. Returns the error, or an empty string.
  template <typename T>
  std::string error_of_copy(void (*kernel)(T*, const T*), unsigned threads) {
    const DeviceMemory x = on_device(stream_, test::numbers(1024));
    const DeviceMemory y(stream_, x.bytes());
    return message_of([&] { launch(kernel, {}, {threads}, 0, stream_, y.as<T>(), x.as<T>()); });
  }

  OrderScope scope_{GetParam()};
  Stream stream_{0};
};

INSTANTIATE_TEST_SUITE_P(Orders, Races, ::testing::ValuesIn(host::all_orders()), ::testing::PrintToStringParamName());

TEST_P(Races, ReportsAMissingBarrier) {
  const std::string error = error_of_copy(test::without_barrier, 64);
  EXPECT_TRUE(contains(error, "a race in shared memory"));
  EXPECT_TRUE(contains(error, place_of("missing barrier")));
  EXPECT_TRUE(contains(error, place_of("reads too early")));
  EXPECT_TRUE(contains(error_of_copy(test::without_second_barrier, 64), "a race in shared memory"));
}

TEST_P(Races, ReportsAMissingWarpBarrier) {
  EXPECT_TRUE(contains(error_of_copy(test::without_barrier, 32), "a race in shared memory"));
  const std::string error = error_of_copy(test::without_warp_barrier, 32);
  EXPECT_TRUE(contains(error, "a race in shared memory"));
  EXPECT_TRUE(contains(error, place_of("no warp barrier")));
}

TEST_P(Races, WarpBarrierOrdersOnlyItsLanes) {
  EXPECT_TRUE(contains(error_of_copy(test::half_a_warp_barrier, 32), "a race in shared memory"));
}

TEST_P(Races, CopiesOfOtherThreadsNeedWaitAndBarrier) {
  EXPECT_TRUE(contains(error_of_copy(test::without_barrier_after_copies, 32), "a race in shared memory"));
  EXPECT_TRUE(contains(error_of_copy(test::waits_after_barrier, 32), "a race in shared memory"));
}

TEST_P(Races, ReportsAccessOutsideSharedArrays) {
  const auto error = [&](void (*kernel)(float*)) {
    const DeviceMemory out(stream_, 256);
    return message_of([&] { launch(kernel, {}, {32}, 32 * sizeof(float), stream_, out.as<float>()); });
  };
  const std::string past = error(test::write_past_dynamic);
  EXPECT_TRUE(contains(past, "byte 128 of the dynamic shared memory, which has 128"));
  EXPECT_TRUE(contains(past, place_of("past dynamic")));
  EXPECT_TRUE(contains(error(test::read_past_dynamic), "byte 128 of the dynamic shared memory"));
  EXPECT_TRUE(contains(error(test::read_before_array), "outside of the shared arrays"));
}

TEST_P(Races, ReportsAccessOutsideDeviceMemory) {
  const DeviceMemory out(stream_, 256);
  const auto error = [&](unsigned n) {
    return message_of([&] { launch(test::write_past_device_memory, {}, {32}, 0, stream_, out.as<float>(), n); });
  };
  EXPECT_EQ(error(63), "");
  EXPECT_TRUE(contains(error(64), "writes 4 bytes at byte 256 of device memory"));
}

TEST_P(Races, ReportsUnorderedAccessesOfDeviceMemory) {
  const auto error = [&](void (*kernel)(unsigned*), unsigned blocks, unsigned threads) {
    const DeviceMemory out(stream_, 4096);
    return message_of([&] { launch(kernel, {blocks}, {threads}, 0, stream_, out.as<unsigned>()); });
  };
  const std::string two_writes = error(test::two_blocks_one_word, 8, 32);
  EXPECT_TRUE(contains(two_writes, "a race in device memory"));
  EXPECT_TRUE(contains(two_writes, place_of("one word")));
  EXPECT_TRUE(contains(error(test::reads_other_block, 8, 32), "a race in device memory"));
  EXPECT_TRUE(contains(error(test::two_warps_one_word, 1, 64), "a barrier between them is missing"));
  const std::string reset = error(test::resets_what_others_read, 1, 96);
  EXPECT_TRUE(contains(reset, "a barrier between them is missing"));
  EXPECT_TRUE(contains(reset, place_of("read before reset")));
}

TEST_P(Races, ReductionNeedsAFenceAndABarrier) {
  const auto error = [&](void (*kernel)(unsigned*, unsigned*, unsigned*)) {
    const DeviceMemory total(stream_, 4);
    const DeviceMemory parts(stream_, 4096);
    const DeviceMemory done = on_device(stream_, std::vector<unsigned>{0});
    return message_of([&] {
      launch(kernel, {8}, {64}, 0, stream_, total.as<unsigned>(), parts.as<unsigned>(), done.as<unsigned>());
    });
  };
  EXPECT_TRUE(contains(error(test::joins_without_fence), "only __threadfence() and an atomic order blocks"));
  EXPECT_TRUE(contains(error(test::joins_before_barrier), "a race in device memory"));
  EXPECT_EQ(error(test::joins), "");
  EXPECT_EQ(error(test::joins_with_own_fences), "");
}

}  // namespace
}  // namespace folio::infer::gpu
