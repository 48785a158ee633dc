// Tests the errors for an unusable GPU: each is one line with the problem, where it was found, and the remedy.
#include "infer/cuda/device_error.h"

#include <gtest/gtest.h>

#include "infer/forward/machine.h"
#include "tests/core/support.h"

namespace folio::infer::gpu {
namespace {

using core::test::expect_error;

TEST(DeviceError, MessageIsOneLineWithCauseAndRemedy) {
  expect_error([] { fail_without_driver(13000); }, {"no NVIDIA driver", "13.0", "--device cpu"});
  expect_error([] { fail_old_driver(13000, 12020); }, {"12.2", "13.0", "update the driver"});
  expect_error([] { fail_without_devices("no CUDA-capable device is detected"); }, {"no CUDA-capable", "nvidia-smi"});
  expect_error([] { fail_no_such_device(3, 2); }, {"GPU 3", "has 2", "--device list"});
  expect_error([] { fail_old_device(name_of("Tesla T4", 0), 75); },
               {"Tesla T4, device 0", "7.5", "8.0", "--device cpu"});
  expect_error([] { fail_no_kernels(name_of("A100", 1), 80); },
               {"A100, device 1", "8.0", "CMAKE_CUDA_ARCHITECTURES=80"});
  expect_error([] { fail_out_of_memory("A100, device 1", 3'000'000'000, 1'500'000); },
               {"A100, device 1", "3000.0 MB", "1.5 MB", "--gpu-layers"});
  expect_error([] { fail_out_of_memory("capturing a graph", "A100, device 1", 1'500'000); },
               {"A100, device 1", "capturing a graph", "1.5 MB", "--cache-memory"});
  expect_error([] { fail_out_of_pinned_memory(64'000'000); }, {"64.0 MB", "batch"});
  expect_error([] { fail_operation("a kernel", "A100, device 1", "unspecified launch failure"); },
               {"A100, device 1", "a kernel", "unspecified launch failure", "compute-sanitizer"});
}

TEST(DeviceError, ThoseOfAStepAreTheMachines) {
  EXPECT_THROW(fail_no_kernels("A100", 80), MachineError);
  EXPECT_THROW(fail_out_of_memory("A100", 2, 1), MachineError);
  EXPECT_THROW(fail_out_of_memory("capturing a graph", "A100", 1), MachineError);
  EXPECT_THROW(fail_out_of_pinned_memory(1), MachineError);
  EXPECT_THROW(fail_operation("a kernel", "A100", "unspecified launch failure"), MachineError);
  EXPECT_THROW(fail_lost("a kernel", "A100", "unspecified launch failure"), MachineLost);
}

}  // namespace
}  // namespace folio::infer::gpu
