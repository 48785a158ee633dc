// The tests on a GPU. Without one, a line and exit code 1: nothing is skipped in silence.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "infer/cuda/device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    const auto devices = folio::infer::gpu::devices();
    if (!GTEST_FLAG_GET(list_tests)) fmt::print("on {}\n", devices.front().name);
  } catch (const folio::core::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return RUN_ALL_TESTS();
}
