// Copies between vectors and device memory, for the kernel tests and experiments/33_cuda.
#pragma once

#include <initializer_list>
#include <ostream>
#include <vector>

#include "core/tensor_view.h"
#include "infer/cuda/device.h"

namespace folio::core {
inline void PrintTo(DType type, std::ostream* out) { *out << info(type).name; }  // prints the parameter of a test
}  // namespace folio::core

namespace folio::infer::gpu::test {

template <typename T>
[[nodiscard]] DeviceMemory on_device(Stream& stream, const std::vector<T>& values) {
  DeviceMemory memory(stream, values.size() * sizeof(T));
  stream.copy_in(memory.as<T>(), values.data(), memory.bytes());
  stream.wait();
  return memory;
}

/// Returns device memory with all bits set (NaN as floats), to detect results that a kernel doesn't write.
[[nodiscard]] inline DeviceMemory unwritten(Stream& stream, size_t bytes) {
  DeviceMemory memory(stream, bytes);
  stream.fill(memory.as<void>(), 0xFF, bytes);
  return memory;
}

template <typename T>
[[nodiscard]] std::vector<T> on_host(Stream& stream, const DeviceMemory& memory) {
  std::vector<T> values(memory.bytes() / sizeof(T));
  stream.copy_out(values.data(), memory.as<T>(), memory.bytes());
  stream.wait();
  return values;
}

/// Returns the bytes of all `memories`, one after another.
[[nodiscard]] inline std::vector<uint8_t> bytes_of(Stream& stream,
                                                   std::initializer_list<const DeviceMemory*> memories) {
  std::vector<uint8_t> bytes;
  for (const DeviceMemory* memory : memories) {
    const auto more = on_host<uint8_t>(stream, *memory);
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  return bytes;
}

template <typename T>
[[nodiscard]] std::vector<uint8_t> bytes_of(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(T)};
}

/// Row sizes around multiples of a warp (32 threads) and a block of 128 threads.
inline const std::vector<size_t> kSizes{1, 2, 31, 32, 33, 127, 128, 129, 576};

}  // namespace folio::infer::gpu::test
