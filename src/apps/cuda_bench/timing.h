// Times kernel launches and allocates their operands. A kernel that reads from memory in a step must read different
// bytes in each timed launch, because the GPU keeps recently read data in its L2 cache.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/cuda/device.h"

namespace folio::infer::gpu::bench {

struct Effort {
  double milliseconds = 10.0;                ///< minimum duration of a repetition, which has at least one launch
  int repetitions = 5;                       ///< number of repetitions; the median is reported
  size_t spread_bytes = size_t{512} << 20U;  ///< total size of the operand copies that launches cycle through
  size_t copy_bytes = size_t{4} << 30U;      ///< size of the copy that measures memory bandwidth
};

/// Returns the number of copies of `bytes` bytes of operands that fill effort.spread_bytes, from 1 to 64.
[[nodiscard]] size_t copies_of(size_t bytes, const Effort& effort);

/// Returns the median microseconds of a launch. launch(copy) must issue one launch that uses copy number `copy`, below
/// n_copies, of the operands. A repetition is a CUDA graph of many launches in a row, timed with events, so the host's
/// overhead is not included.
[[nodiscard]] double microseconds(Stream& stream, const Effort& effort, size_t n_copies,
                                  const std::function<void(size_t copy)>& launch);

/// Returns `bytes` bytes of device memory filled with repetitions of `piece`.
[[nodiscard]] DeviceMemory repeated(Stream& stream, size_t bytes, std::span<const uint8_t> piece);
/// Returns n random floats in [-1, 1) in device memory.
[[nodiscard]] DeviceMemory random_floats(Stream& stream, size_t n, uint64_t seed);
/// Returns `bytes` bytes of zeros in device memory.
[[nodiscard]] DeviceMemory zeros(Stream& stream, size_t bytes);
/// Returns a copy of `values` in device memory.
template <typename T>
[[nodiscard]] DeviceMemory on_device(Stream& stream, const std::vector<T>& values) {
  DeviceMemory memory(stream, values.size() * sizeof(T));
  stream.copy_in(memory.as<T>(), values.data(), memory.bytes());
  stream.wait();
  return memory;
}

/// Returns the median; for an even number of values, the mean of the middle two. `values` must not be empty.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace folio::infer::gpu::bench
