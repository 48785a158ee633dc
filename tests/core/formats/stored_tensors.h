// Helpers for tests of file formats: tensors that own their bytes, and a function that reads every byte of a file's
// tensors.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor_view.h"
#include "tests/core/support.h"

namespace folio::core::test {

struct Stored {
  std::string name;
  DType type;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  [[nodiscard]] TensorView view() const { return {.name = name, .type = type, .shape = shape, .bytes = bytes}; }
};

/// Returns a tensor with pseudorandom bytes.
inline Stored stored(std::string name, DType type, std::vector<int64_t> shape) {
  static unsigned next = 0;
  Stored t{std::move(name), type, shape, std::vector<std::byte>(tensor_bytes(type, shape).value())};
  for (std::byte& b : t.bytes) b = static_cast<std::byte>((next = next * 1664525 + 1013904223) >> 24U);
  return t;
}

inline std::vector<TensorView> views_of(const std::vector<Stored>& tensors) {
  std::vector<TensorView> views;
  for (const Stored& t : tensors) views.push_back(t.view());
  return views;
}

/// Reads a file and every byte of its views, for AddressSanitizer to check. Returns true if the file was accepted.
template <typename File>
bool taken(const std::filesystem::path& path) {
  try {
    const File file(path);
    unsigned sum = 0;
    for (const TensorView& t : file.tensors()) {
      for (const std::byte b : t.bytes) sum += static_cast<unsigned>(b);
      EXPECT_EQ(file.find_tensor(t.name), &t);
      EXPECT_EQ(t.bytes.size(), tensor_bytes(t.type, t.shape));
    }
    volatile unsigned sink = sum;
    static_cast<void>(sink);
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), path.string()));
    EXPECT_FALSE(contains(error.what(), "\n")) << error.what();
    return false;
  }
}

}  // namespace folio::core::test
