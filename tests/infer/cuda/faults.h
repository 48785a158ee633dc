// Helpers for tests with planted bugs: the error of a launch, and the source line that it must name.
#pragma once

#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "tests/core/support.h"
#include "tests/infer/cuda/support.h"
#include "tests/infer/cuda/test_kernels.h"

namespace folio::infer::gpu::test {

using core::test::contains;
using core::test::message_of;

/// Finds the line of wrong_kernels.cu that ends with "// place: NAME". Returns its location, as "wrong_kernels.cu:12".
[[nodiscard]] inline std::string place_of(const std::string& name) {
  std::ifstream file(FOLIO_WRONG_KERNELS);
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    if (text.ends_with("// place: " + name)) return "wrong_kernels.cu:" + std::to_string(line);
  }
  return "no such place";
}

/// Returns the numbers 1 to n.
[[nodiscard]] inline std::vector<float> numbers(unsigned n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 1.0F);
  return x;
}

/// Launches `kernel` as one block of `threads` threads with 4 KiB of output memory. Returns the error, or an empty
/// string.
[[nodiscard]] inline std::string error_of_block(void (*kernel)(unsigned*), unsigned threads) {
  Stream stream(0);
  const DeviceMemory out(stream, 4 * 1024);
  return message_of([&] { launch(kernel, {}, {threads}, 0, stream, out.as<unsigned>()); });
}

}  // namespace folio::infer::gpu::test
