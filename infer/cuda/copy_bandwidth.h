// The speed of a GPU's memory, for bench: what share of it a step reaches.
#pragma once

#include "infer/cuda/device.h"

namespace folio::infer::gpu {

/// Bytes per second, read and written, of copies of `most` bytes within the device's memory, the best of five; of less,
/// where less is free.
[[nodiscard]] double copy_bandwidth(Stream& stream, size_t most = size_t{4} << 30U);

}  // namespace folio::infer::gpu
