// Measures a GPU's memory bandwidth. bench compares it with the bandwidth that a step reaches.
#pragma once

#include "infer/cuda/device.h"

namespace folio::infer::gpu {

/// Returns the bytes per second, read and written, of copies within device memory: the best of five. Copies `most`
/// bytes, or less if little memory is free.
[[nodiscard]] double copy_bandwidth(Stream& stream, size_t most = size_t{4} << 30U);

}  // namespace folio::infer::gpu
