// Device memory from vectors and back.
#pragma once

#include <cstring>
#include <vector>

#include "infer/cuda/device.h"

namespace folio::infer::gpu::test {

template <typename T>
[[nodiscard]] DeviceMemory on_device(Stream& stream, const std::vector<T>& values) {
  DeviceMemory memory(stream, values.size() * sizeof(T));
  stream.copy_in(memory.as<T>(), values.data(), memory.bytes());
  stream.wait();
  return memory;
}

template <typename T>
[[nodiscard]] std::vector<T> on_host(Stream& stream, const DeviceMemory& memory) {
  std::vector<T> values(memory.bytes() / sizeof(T));
  stream.copy_out(values.data(), memory.as<T>(), memory.bytes());
  stream.wait();
  return values;
}

[[nodiscard]] inline std::vector<uint8_t> bytes_of(Stream& stream, const DeviceMemory& memory) {
  return on_host<uint8_t>(stream, memory);
}

}  // namespace folio::infer::gpu::test
