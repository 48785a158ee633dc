// Tests that the emulator detects every bug in wrong_kernels.cu. Without the race detector, it detects a data race only
// if results differ between orders of threads.
#include "tests/infer/cuda/faults.h"

#include <algorithm>
#include <vector>

#include "tests/infer/cuda/host/emulator.h"

namespace folio::infer::gpu {
namespace {

using host::Order;
using test::contains;
using test::error_of_block;
using test::message_of;
using test::numbers;
using test::on_device;
using test::on_host;
using test::place_of;

/// Runs a kernel that reads x and writes y in one block of at most 64 threads, in every order of threads. Returns the
/// error, or an empty string.
template <typename T>
std::string error_in_orders(void (*kernel)(T*, const T*), unsigned threads) {
  return message_of([&] {
    host::require_same_in_all_orders([&] {
      Stream stream(0);
      const DeviceMemory x = on_device(stream, numbers(256));
      const DeviceMemory y(stream, x.bytes());
      launch(kernel, {}, {threads}, 0, stream, y.as<T>(), x.as<T>());
      return on_host<uint8_t>(stream, y);
    });
  });
}

TEST(EmulatorFaults, DetectsMissingBarriersAndWaits) {
  EXPECT_TRUE(contains(error_in_orders(test::without_barrier, 64), "depend on their turn"));
  EXPECT_TRUE(contains(error_in_orders(test::without_barrier, 32), "depend on their turn"));
  EXPECT_TRUE(contains(error_in_orders(test::without_second_barrier, 64), "depend on their turn"));
  EXPECT_TRUE(contains(error_in_orders(test::without_barrier_after_copies, 32), "depend on their turn"));
  EXPECT_TRUE(contains(error_in_orders(test::without_any_copy_wait, 32), "1 of its copies are on their way"));
}

TEST(EmulatorFaults, AsyncCopiesAreNaNUntilTheirWait) {
  Stream stream(0);
  const DeviceMemory x = on_device(stream, numbers(128));
  const DeviceMemory y(stream, x.bytes());
  stream.fill(y.as<float>(), 0, y.bytes());
  launch(test::with_late_copy_wait, {}, {32}, 0, stream, y.as<Words>(), x.as<Words>());
  const std::vector<uint8_t> bytes = on_host<uint8_t>(stream, y);
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0xFF; }));
}

TEST(EmulatorFaults, NamesThePlacesOfThreadsThatDoNotMeet) {
  struct Fault {
    void (*kernel)(unsigned*);
    unsigned threads;
    std::vector<std::string> parts;  ///< of the error
  };
  const std::vector<Fault> faults{
      {test::barrier_in_branch, 64, {place_of("barrier in branch"), "return"}},
      {test::two_barriers, 64, {place_of("first barrier"), place_of("second barrier")}},
      {test::lane_outside_mask, 32, {place_of("outside mask"), "name it in the mask"}},
      {test::lane_that_returned, 32, {place_of("lane returned"), "thread (31, 0, 0) of block (0, 0, 0)"}},
      {test::lanes_at_two_places, 32, {place_of("first shuffle"), place_of("second shuffle")}},
      {test::lanes_with_two_masks, 32, {place_of("two masks"), "0x00ffffff", "0xffffff00"}},
      {test::lane_at_barrier, 32, {place_of("lonely barrier"), place_of("stuck shuffle")}},
      {test::lane_not_in_block, 48, {place_of("short warp"), "lane 16 of warp 1 is not in the block"}}};
  for (const Order& order : host::all_orders()) {
    const host::OrderScope scope(order);
    for (const Fault& fault : faults) {
      const std::string error = error_of_block(fault.kernel, fault.threads);
      for (const std::string& part : fault.parts) EXPECT_TRUE(contains(error, part));
    }
  }
}

// Without the race detector, the emulator detects writes past the end of shared memory, but not reads.
TEST(EmulatorFaults, DetectsWritesPastSharedMemory) {
  Stream stream(0);
  const DeviceMemory out(stream, 256);
  const std::string error =
      message_of([&] { launch(test::write_past_dynamic, {}, {32}, 32 * sizeof(float), stream, out.as<float>()); });
  EXPECT_TRUE(contains(error, "byte 128 of the dynamic shared memory"));
}

TEST(EmulatorFaults, DetectsDependenceOnBlockOrder) {
  for (auto* kernel : {test::two_blocks_one_word, test::reads_other_block, test::takes_turns}) {
    EXPECT_TRUE(contains(message_of([&] {
                           host::require_same_in_all_orders([&] {
                             Stream stream(0);
                             const DeviceMemory out(stream, 256);
                             stream.fill(out.as<unsigned>(), 0, out.bytes());
                             launch(kernel, {8}, {32}, 0, stream, out.as<unsigned>());
                             return on_host<uint8_t>(stream, out);
                           });
                         }),
                         "depend on their turn"));
  }
}

TEST(EmulatorFaults, DetectsMisalignedLoads) {
  Stream stream(0);
  const DeviceMemory x = on_device(stream, numbers(64));
  EXPECT_TRUE(
      contains(message_of([&] { launch(test::load_misaligned, {}, {32}, 0, stream, x.as<float>(), x.as<float>()); }),
               "not a multiple of 16"));
}

TEST(EmulatorFaults, RejectsLaunchesBeyondGpuLimits) {
  Stream stream(0);
  const DeviceMemory x = on_device(stream, numbers(64));
  const auto error = [&](Grid grid, Grid block, size_t shared) {
    return message_of([&] { launch(test::scale, grid, block, shared, stream, x.as<float>(), 1.0F, 64U); });
  };
  EXPECT_TRUE(contains(error({1}, {1025}, 0), "1025 x 1 x 1 threads"));
  EXPECT_TRUE(contains(error({1}, {0}, 0), "0 x 1 x 1 threads"));
  EXPECT_TRUE(contains(error({1}, {1, 1, 65}, 0), "1 x 1 x 65 threads"));
  EXPECT_TRUE(contains(error({0}, {32}, 0), "0 x 1 x 1 blocks"));
  EXPECT_TRUE(contains(error({1, 65536}, {32}, 0), "1 x 65536 x 1 blocks"));
  EXPECT_TRUE(contains(error({1}, {32}, (size_t{99} << 10U) + 1), "101377 bytes of shared memory"));
  EXPECT_EQ(error({1}, {32}, size_t{99} << 10U), "");
}

TEST(EmulatorFaults, RunsNormallyAfterAnError) {
  for (int turn = 0; turn < 200; ++turn) {
    EXPECT_NE(error_of_block(test::lane_at_barrier, 1024), "");
    Stream stream(0);
    const DeviceMemory out(stream, 32 * 4);
    launch(test::halves, {}, {32}, 0, stream, out.as<unsigned>());
    EXPECT_EQ(on_host<unsigned>(stream, out)[0], 22U);
  }
}

}  // namespace
}  // namespace folio::infer::gpu
