#include "infer/cuda/copy_bandwidth.h"

#include <algorithm>

namespace folio::infer::gpu {

double copy_bandwidth(int device, size_t most) {
  Stream stream(device);
  constexpr size_t kLeast = size_t{64} << 20U;  // a smaller copy stays in the L2 cache
  // Source and destination each use a quarter of the free memory, or `most` bytes if that is less.
  const uint64_t free = device_info(device).free_bytes;
  const size_t bytes = std::clamp<size_t>(free / 4, kLeast, std::max(kLeast, most));
  DeviceMemory from(stream, bytes);
  DeviceMemory to(stream, bytes);
  stream.fill(from.as<void>(), 1, bytes);
  Event start;
  Event end;
  double best = 0.0;
  for (int pass = 0; pass < 5; ++pass) {
    start.record(stream);
    stream.copy_within(to.as<void>(), from.as<void>(), bytes);
    end.record(stream);
    best = std::max(best, 2.0 * static_cast<double>(bytes) / (end.since(start) / 1e3));
  }
  stream.wait();
  return best;
}

}  // namespace folio::infer::gpu
