// Tests the errors for an unusable GPU: each is one line with the problem, where it was found, and the remedy.
#include "infer/cuda/device_error.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"

namespace folio::infer::gpu {
namespace {

std::string message_of(const std::function<void()>& failing) {
  try {
    failing();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

TEST(DeviceError, MessageIsOneLineWithCauseAndRemedy) {
  const struct {
    std::function<void()> failing;
    std::vector<std::string> parts;
  } cases[] = {
      {[] { fail_without_driver(13000); }, {"no NVIDIA driver", "13.0", "--device cpu"}},
      {[] { fail_old_driver(13000, 12020); }, {"12.2", "13.0", "update the driver"}},
      {[] { fail_without_devices("no CUDA-capable device is detected"); }, {"no CUDA-capable", "nvidia-smi"}},
      {[] { fail_no_such_device(3, 2); }, {"GPU 3", "has 2", "--device list"}},
      {[] { fail_old_device(name_of("Tesla T4", 0), 75); }, {"Tesla T4, device 0", "7.5", "8.0", "--device cpu"}},
      {[] { fail_no_kernels(name_of("A100", 1), 80); }, {"A100, device 1", "8.0", "CMAKE_CUDA_ARCHITECTURES=80"}},
      {[] { fail_out_of_memory("A100, device 1", 3'000'000'000, 1'500'000); },
       {"A100, device 1", "3000.0 MB", "1.5 MB", "--gpu-layers"}},
      {[] { fail_out_of_memory("capturing a graph", "A100, device 1", 1'500'000); },
       {"A100, device 1", "capturing a graph", "1.5 MB", "--cache-memory"}},
      {[] { fail_out_of_pinned_memory(64'000'000); }, {"64.0 MB", "batch"}},
      {[] { fail_operation("a kernel", "A100, device 1", "unspecified launch failure"); },
       {"A100, device 1", "a kernel", "unspecified launch failure", "compute-sanitizer"}},
  };
  for (const auto& c : cases) {
    const std::string message = message_of(c.failing);
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : c.parts) EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  }
}

}  // namespace
}  // namespace folio::infer::gpu
