// Helpers for tests with planted bugs: the error of a launch, and the source line that it must name.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "core/error.h"
#include "tests/infer/cuda/support.h"
#include "tests/infer/cuda/test_kernels.h"

namespace folio::infer::gpu::test {

/// Returns the message of the core::Error that `run` throws, or an empty string.
template <typename Run>
[[nodiscard]] std::string error_of(Run run) {
  try {
    run();
  } catch (const core::Error& e) {
    return e.what();
  }
  return "";
}

/// Finds the line of wrong_kernels.cu that ends with "// place: NAME". Returns its location, as "wrong_kernels.cu:12".
[[nodiscard]] inline std::string place_of(const std::string& name) {
  std::ifstream file(FOLIO_WRONG_KERNELS);
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    if (text.ends_with("// place: " + name)) return "wrong_kernels.cu:" + std::to_string(line);
  }
  return "no such place";
}

[[nodiscard]] inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in \"" << text << "\"";
}

/// Launches `kernel` as one block of `threads` threads with 4 KiB of output memory. Returns the error, or an empty
/// string.
template <typename... Parameters>
[[nodiscard]] std::string error_of_block(void (*kernel)(unsigned*, Parameters...), unsigned threads) {
  Stream stream(0);
  const DeviceMemory out(stream, 4 * 1024);
  return error_of([&] { launch(kernel, {}, {threads}, 0, stream, out.as<unsigned>()); });
}

}  // namespace folio::infer::gpu::test
