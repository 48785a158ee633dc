// Runs the kernel tests on a GPU. Without a GPU, prints an error and exits with 1 instead of skipping tests.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "core/error.h"
#include "infer/cuda/device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  try {
    fmt::print("on {}\n", folio::infer::gpu::devices().front().name);
    std::fflush(stdout);
  } catch (const folio::core::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return RUN_ALL_TESTS();
}
