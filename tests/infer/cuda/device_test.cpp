// Tests infer/cuda/device.h (devices, memory and recordings of a GPU) on the emulator, which uses host memory.
#include "infer/cuda/device.h"

#include <algorithm>
#include <vector>

#include "tests/infer/cuda/faults.h"
#include "tests/infer/cuda/host/emulator.h"

namespace folio::infer::gpu {
namespace {

using test::bytes_of;
using test::contains;
using test::error_of;
using test::on_device;
using test::on_host;

TEST(Device, HasANameAndMemory) {
  const std::vector<DeviceInfo> found = devices();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "host emulation of a GPU");
  EXPECT_EQ(found[0].free_bytes, found[0].memory_bytes);
  EXPECT_TRUE(contains(error_of([] { Stream(1); }), "GPU 1: this machine has 1"));
}

TEST(Device, FreshMemoryIsNaN) {
  Stream stream(0);
  const DeviceMemory memory(stream, 1001);
  const std::vector<uint8_t> bytes = bytes_of(stream, memory);
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0xFF; }));
}

TEST(Device, RejectsAllocationsBeyondMemory) {
  const host::DeviceScope scope({.n_devices = 2, .memory_bytes = 1000});
  Stream stream(1);
  DeviceMemory first(stream, 600);
  EXPECT_EQ(devices()[1].free_bytes, 400U);
  EXPECT_EQ(devices()[0].free_bytes, 1000U);
  EXPECT_TRUE(
      contains(error_of([&] { DeviceMemory(stream, 401); }), "GPU 1: 401 bytes are asked for, and 400 of 1000"));
  first = DeviceMemory();
  EXPECT_NO_THROW(DeviceMemory(stream, 1000));
}

TEST(Device, RecordingsCanBeReplayed) {
  Stream stream(0);
  const DeviceMemory x = on_device(stream, std::vector<float>{1, 2, 3, 4});
  const DeviceMemory y(stream, x.bytes());
  stream.begin_recording();
  launch(test::scale, {}, {32}, 0, stream, x.as<float>(), 2.0F, 4U);
  stream.copy_within(y.as<float>(), x.as<float>(), x.bytes());
  stream.fill(y.as<float>(), 0, 4);
  EXPECT_TRUE(contains(error_of([&] { stream.wait(); }), "end the recording first"));
  EXPECT_TRUE(contains(error_of([&] { stream.begin_recording(); }), "records already"));
  Recording recording = stream.end_recording();
  EXPECT_TRUE(contains(error_of([&] { (void)stream.end_recording(); }), "doesn't record"));
  EXPECT_EQ(on_host<float>(stream, x)[3], 4);
  stream.run(recording);
  EXPECT_EQ(on_host<float>(stream, y), (std::vector<float>{0, 4, 6, 8}));
  stream.run(recording);
  EXPECT_EQ(on_host<float>(stream, y), (std::vector<float>{0, 8, 12, 16}));
}

}  // namespace
}  // namespace folio::infer::gpu
