// The time of one launch, and memory for its operands: a GPU keeps in its L2 cache what it has just read, so a
// kernel that reads from memory in a step has to read other bytes in each launch here, too.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/cuda/device.h"

namespace folio::infer::gpu::bench {

struct Effort {
  double milliseconds = 10.0;                ///< of a repetition, or one launch if that takes longer
  int repetitions = 5;                       ///< of which the median counts
  size_t spread_bytes = size_t{512} << 20U;  ///< that a kernel's launches read before they read the same again
  size_t copy_bytes = size_t{4} << 30U;      ///< of the copy that gives the memory's bandwidth
};

/// Copies of operands of so many bytes that spread them, from 1 to 64.
[[nodiscard]] size_t copies_of(size_t bytes, const Effort& effort);

/// Microseconds of a launch. launch(copy) issues one on that copy of its operands. A repetition is a recording of many
/// launches, one behind the other, between two events: what the host needs to issue them isn't counted.
[[nodiscard]] double microseconds(Stream& stream, const Effort& effort, size_t n_copies,
                                  const std::function<void(size_t copy)>& launch);

/// So many bytes: `piece`, again and again.
[[nodiscard]] DeviceMemory repeated(Stream& stream, size_t bytes, std::span<const uint8_t> piece);
/// So many floats in [-1, 1).
[[nodiscard]] DeviceMemory random_floats(Stream& stream, size_t n, uint64_t seed);
[[nodiscard]] DeviceMemory zeros(Stream& stream, size_t bytes);
template <typename T>
[[nodiscard]] DeviceMemory on_device(Stream& stream, const std::vector<T>& values) {
  DeviceMemory memory(stream, values.size() * sizeof(T));
  stream.copy_in(memory.as<T>(), values.data(), memory.bytes());
  stream.wait();
  return memory;
}

/// The middle one, or the mean of the two in the middle. `values` is not empty.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace folio::infer::gpu::bench
